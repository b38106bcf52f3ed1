"""Normalisation: statistics are ops of ours, applying them is point-wise and fuses with what
follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from handtorch.capture.aten.reduce import reduce
from handtorch.capture.builder import Builder, Result, aten
from handtorch.capture.lines import user_line
from handtorch.errors import CannotCapture
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = (
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "native_batch_norm_backward",
    "native_layer_norm", "native_layer_norm_backward", "native_group_norm",
    "native_group_norm_backward")
LONG_ROW = 8192                           # beyond it one item per row is too few items

_aten = torch.ops.aten
Tensor = torch.Tensor


def _batch_norm_parts(x: Tensor, weight: Tensor | None, bias: Tensor | None,
                      running_mean: Tensor | None, running_var: Tensor | None, training: bool,
                      momentum: float, eps: float) -> Any:
    """torch's op writes running statistics behind its schema; here they are written in the open,
    so that functionalising the graph sees them."""
    if not training:
        return _aten._native_batch_norm_legit_no_training(x, weight, bias, running_mean,
                                                          running_var, momentum, eps)
    if running_mean is None or running_var is None:
        return _aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    y, mean, scale, new_mean, new_var = _aten._native_batch_norm_legit_functional(
        x, weight, bias, running_mean, running_var, True, momentum, eps)
    running_mean.copy_(new_mean)
    running_var.copy_(new_var)
    return y, mean, scale


DECOMPOSE = {_aten.native_batch_norm.default: _batch_norm_parts}


@contextmanager
def patched() -> Iterator[None]:
    """While entered, batch-norm with a cumulative average is refused where the user wrote it."""
    before = _BatchNorm.forward

    def forward(self: _BatchNorm, x: Tensor) -> Tensor:
        if self.training and self.momentum is None and self.track_running_stats:
            raise CannotCapture("batch-norm with momentum=None",
                                why="the weight of a batch would be a number that changes with "
                                    "every step", where=str(user_line() or ""),
                                fix="momentum=0.1")
        return before(self, x)
    _BatchNorm.forward = forward  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        _BatchNorm.forward = before  # type: ignore[method-assign]


def _normalised(b: Builder, x: Value, mean: Value, scale: Value) -> Value:
    return b.one("mul", (b.one("sub", (x, mean)), scale))


def _affine(b: Builder, y: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        y = b.one("mul", (y, weight))
    return y if bias is None else b.one("add", (y, bias))


def _gradient(b: Builder, g: Value, h: Value, scale: Value, sums: Sequence[Value], count: int
              ) -> Value:
    """scale * (g - (sum(g) + h * sum(g * h)) / count), all at full size: one region."""
    products, total = sums
    away = b.one("add", (b.one("mul", (h, products)), total))
    share = b.one("mul", (away, b.constant(1 / count, "f32")))
    return b.one("mul", (b.one("sub", (g, share)), scale))


class _Channels:
    """A batch [n, channels, ...] and how per-channel values meet it."""

    def __init__(self, b: Builder, x: Value) -> None:
        self._b, self._rank = b, len(x.shape)
        channels = x.shape[1] if len(x.shape) > 1 else 1
        self.split = (x.shape[0], channels, prod(x.shape[2:]))

    def wide(self, v: Value | None) -> Value | None:
        """[channels] as [channels, 1, ...]."""
        return v if v is None else self.each(v)

    def each(self, v: Value) -> Value:
        if self._rank == 2:
            return v
        return self._b.one("reshape", (v,), shape=(v.size, *(1 for _ in range(self._rank - 2))))


def _batch_stats(b: Builder, x: Value, weight: Value | None, bias: Value | None,
                 running: tuple[Value, ...], momentum: float, eps: float) -> tuple[Value, ...]:
    over = _Channels(b, x)
    mean, scale, *moved = b.emit("norm_stats", (x, *running), split=over.split, eps=eps,
                                 **({"momentum": momentum} if running else {}))
    y = _normalised(b, x, over.each(mean), over.each(scale))
    return (_affine(b, y, over.wide(weight), over.wide(bias)), mean, scale, *moved)


@aten("_native_batch_norm_legit_functional.default")
def _batch_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value,
                var: Value, training: bool, momentum: float, eps: float) -> Result:
    assert training
    return _batch_stats(b, x, weight, bias, (mean, var), momentum, eps)


@aten("_native_batch_norm_legit.no_stats")
def _batch_norm_untracked(b: Builder, x: Value, weight: Value | None, bias: Value | None,
                          training: bool, momentum: float, eps: float) -> Result:
    return _batch_stats(b, x, weight, bias, (), momentum, eps)


def _fixed_scale(b: Builder, var: Value, eps: float) -> Value:
    return b.one("rsqrt", (b.one("add", (var, b.constant(eps, "f32"))),))


@aten("_native_batch_norm_legit_no_training.default")
def _batch_norm_fixed(b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value,
                      var: Value, momentum: float, eps: float) -> Result:
    over = _Channels(b, x)
    scale = _fixed_scale(b, var, eps)
    if weight is not None:
        scale = b.one("mul", (scale, weight))
    y = _normalised(b, x, over.each(mean), over.each(scale))
    return _affine(b, y, None, over.wide(bias)), None, None


@aten("native_batch_norm_backward.default")
def _batch_norm_grad(b: Builder, g: Value, x: Value, weight: Value | None,
                     running_mean: Value | None, running_var: Value | None, mean: Any, scale: Any,
                     training: bool, eps: float, wanted: Sequence[bool]) -> Result:
    over = _Channels(b, x)
    if not training:
        assert running_mean is not None and running_var is not None
        mean, scale = running_mean, _fixed_scale(b, running_var, eps)
    dw: Value | None = None
    db: Value | None = None
    if training or wanted[1] or wanted[2]:
        dw, db = b.emit("norm_grad_sums", (g, x, mean, scale), split=over.split)
    if not wanted[0]:
        return None, dw, db
    if training:
        assert dw is not None and db is not None
        h = _normalised(b, x, over.each(mean), over.each(scale))
        count = over.split[0] * over.split[2]
        dx = _gradient(b, g, h, over.each(scale), (over.each(dw), over.each(db)), count)
    else:
        dx = b.one("mul", (g, over.each(scale)))
    return _affine(b, dx, over.wide(weight), None), dw, db


@aten("native_layer_norm.default")
def _layer_norm(b: Builder, x: Value, shape: Sequence[int], weight: Value | None,
                bias: Value | None, eps: float) -> Result:
    axis, columns = len(x.shape) - len(shape), prod(shape)
    if bias is not None and weight is None:
        weight = b.one("fill", (), shape=tuple(shape), number=1.0, dtype="f32")
    if columns <= LONG_ROW:
        given = tuple(v for v in (x, weight, bias) if v is not None)
        return b.emit("layer_norm", given, axis=axis, eps=eps)
    mean, scale = b.emit("norm_stats", (x,), split=(1, x.size // columns, columns), eps=eps)
    rows = (*x.shape[:axis], *(1 for _ in shape))
    mean, scale = (b.one("reshape", (v,), shape=rows) for v in (mean, scale))
    return _affine(b, _normalised(b, x, mean, scale), weight, bias), mean, scale


@aten("native_layer_norm_backward.default")
def _layer_norm_grad(b: Builder, g: Value, x: Value, shape: Sequence[int], mean: Value,
                     scale: Value, weight: Value | None, bias: Value | None,
                     wanted: Sequence[bool]) -> Result:
    axis, columns = len(x.shape) - len(shape), prod(shape)
    affine = wanted[1] or wanted[2]
    if columns <= LONG_ROW:
        given = (g, x, mean, scale, *(() if weight is None else (weight,)))
        dx, *sums = b.emit("layer_norm_grad", given, axis=axis, affine=bool(affine))
        return (dx, *sums) if affine else (dx, None, None)
    rows = tuple(range(axis))
    h = _normalised(b, x, mean, scale)
    dw = reduce(b, "sum", b.one("mul", (g, h)), rows) if wanted[1] and rows else None
    db = reduce(b, "sum", g, rows) if wanted[2] and rows else None
    if affine and not rows:
        dw, db = b.one("mul", (g, h)), g
    if weight is not None:
        g = b.one("mul", (g, weight))
    flat = b.emit("norm_grad_sums", (g, x, mean, scale), split=(1, x.size // columns, columns))
    totals = [b.one("reshape", (v,), shape=mean.shape) for v in flat]
    return _gradient(b, g, h, scale, totals, columns), dw, db


@aten("native_group_norm.default")
def _group_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None, n: int,
                channels: int, size: int, groups: int, eps: float) -> Result:
    mean, scale = b.emit("norm_stats", (x,), split=(1, n * groups, channels // groups * size),
                         eps=eps)
    over = _Groups(b, n, channels, size, groups)
    y = _normalised(b, over.whole(x), over.group(mean), over.group(scale))
    y = _affine(b, y, over.channel(weight), over.channel(bias))
    return tuple(b.one("reshape", (v,), shape=s)
                 for v, s in ((y, x.shape), (mean, (n, groups)), (scale, (n, groups))))


class _Groups:
    """[n, channels, size] as [n, groups, channels of a group, size]."""

    def __init__(self, b: Builder, n: int, channels: int, size: int, groups: int) -> None:
        self._b, self.n, self.groups = b, n, groups
        self.inner, self.size = channels // groups, size

    def _as(self, v: Value, *shape: int) -> Value:
        return self._b.one("reshape", (v,), shape=shape)

    def whole(self, v: Value) -> Value:
        return self._as(v, self.n, self.groups, self.inner, self.size)

    def group(self, v: Value) -> Value:
        return self._as(v, self.n, self.groups, 1, 1)

    def channel(self, v: Value | None) -> Value | None:
        return v if v is None else self._as(v, self.groups, self.inner, 1)


@aten("native_group_norm_backward.default")
def _group_norm_grad(b: Builder, g: Value, x: Value, mean: Value, scale: Value,
                     weight: Value | None, n: int, channels: int, size: int, groups: int,
                     wanted: Sequence[bool]) -> Result:
    over = _Groups(b, n, channels, size, groups)
    each = b.emit("norm_grad_sums", (g, x, mean, scale), split=(1, n * channels, size),
                  share=over.inner)
    dw, db = (reduce(b, "sum", b.one("reshape", (v,), shape=(n, channels)), 0) if w else None
              for v, w in zip(each, wanted[1:], strict=True))
    if not wanted[0]:
        return None, dw, db
    per_channel = [b.one("reshape", (v,), shape=(n, groups, over.inner, 1)) for v in each]
    wide = over.channel(weight)
    if wide is not None:
        per_channel = [b.one("mul", (v, wide)) for v in per_channel]
    sums = [reduce(b, "sum", v, 2, True) for v in per_channel]
    h = _normalised(b, over.whole(x), over.group(mean), over.group(scale))
    u = _affine(b, over.whole(g), wide, None)
    dx = _gradient(b, u, h, over.group(scale), sums, over.inner * size)
    return b.one("reshape", (dx,), shape=x.shape), dw, db
