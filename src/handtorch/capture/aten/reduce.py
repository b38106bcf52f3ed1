"""Reductions, scans and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Attr, Node, Value
from handtorch.graph.ops.reduce import reduced_shape

KEEP: tuple[str, ...] = ("_log_softmax", "_softmax", "_log_softmax_backward_data",
                         "_softmax_backward_data", "mean", "var", "var_mean", "amax", "amin",
                         "linalg_vector_norm")

_EMPTY = {"sum": 0.0, "prod": 1.0, "any": 0.0}
Axes = Sequence[int] | int | None


def _axes(x: Value, axes: Axes) -> tuple[int, ...]:
    """Counted from the front, in order; none named means all."""
    rank = len(x.shape)
    if axes is None or (not isinstance(axes, int) and not axes):
        return tuple(range(rank))
    named = (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(a % rank for a in named)) if rank else ()


def reduce(b: Builder, op: str, x: Value, axes: Axes = None, keepdim: bool = False, *,
           of: str = "", scale: float = 1.0) -> Value:
    """scale * fold of of(x) over `axes`; axes of size 1 need no launch of their own."""
    attrs: dict[str, Attr] = {"axes": _axes(x, axes), "keepdim": bool(keepdim)}
    shape = reduced_shape(Node(op, (x,), (), attrs))
    count = prod(x.shape[a] for a in _axes(x, axes))
    if count == 0 and op in _EMPTY:
        number = float("nan") if scale != 1.0 else _EMPTY[op]
        return b.one("fill", (), shape=shape, number=number, dtype=x.dtype)
    if count == 1:
        alone = b.one(of, (x,)) if of else x
        if scale != 1.0:
            alone = b.one("mul", (alone, b.constant(scale, "f32")))
        return b.one("reshape", (alone,), shape=shape)
    attrs |= ({"of": of} if of else {}) | ({"scale": scale} if scale != 1.0 else {})
    return b.one(op, (x,), **attrs)


def mean(b: Builder, x: Value, axes: Axes = None, keepdim: bool = False) -> Value:
    count = prod(x.shape[a] for a in _axes(x, axes))
    return reduce(b, "sum", x, axes, keepdim, scale=1 / count if count else float("nan"))


def _number(b: Builder, x: Value, dtype: Any) -> Value:
    """Sums of bools are ints, unless another type is asked for."""
    kind = b.dtype(dtype) if dtype is not None else "i32" if x.dtype == "bool" else x.dtype
    return b.cast(x, kind)


@aten("sum.default", "sum.dim_IntList", "prod.default", "prod.dim_int")
def _sum(b: Builder, x: Value, axes: Axes = None, keepdim: bool = False, *, op: str,
         dtype: Any = None) -> Value:
    return reduce(b, op, _number(b, x, dtype), axes, keepdim)


@aten("mean.default", "mean.dim")
def _mean(b: Builder, x: Value, axes: Axes = None, keepdim: bool = False, *, dtype: Any = None
          ) -> Value:
    return mean(b, _number(b, x, dtype), axes, keepdim)


@aten("amax.default", "amin.default")
def _amax(b: Builder, x: Value, axes: Axes = None, keepdim: bool = False, *, op: str) -> Value:
    return reduce(b, op, x, axes, keepdim)


@aten("max.default", "min.default")
def _max(b: Builder, x: Value, *, op: str) -> Value:
    return reduce(b, f"a{op}", x)


@aten("any.default", "any.dim", "any.dims")
def _any(b: Builder, x: Value, axes: Axes = None, keepdim: bool = False) -> Value:
    return reduce(b, "any", b.cast(x, "bool"), axes, keepdim)


def _extreme(b: Builder, op: str, x: Value, axes: Axes, keepdim: bool) -> tuple[Value, Value]:
    attrs: dict[str, Attr] = {"axes": _axes(x, axes), "keepdim": bool(keepdim)}
    number = b.cast(x, "i32") if x.dtype == "bool" else x
    if not x.shape:
        return x, b.one("fill", (), shape=(), number=0.0, dtype="i32")
    best, where = b.emit(f"{op}_index", (number,), **attrs)
    return b.cast(best, x.dtype), where


@aten("max.dim", "min.dim")
def _max_dim(b: Builder, x: Value, axis: int, keepdim: bool = False, *, op: str) -> Result:
    return _extreme(b, op, x, axis, keepdim)


@aten("argmax.default", "argmin.default")
def _argmax(b: Builder, x: Value, axis: int | None = None, keepdim: bool = False, *, op: str
            ) -> Value:
    return _extreme(b, op.removeprefix("arg"), x, axis, keepdim)[1]


def _variance(b: Builder, x: Value, axes: Axes, correction: float | None, keepdim: bool
              ) -> tuple[Value, Value]:
    """Two sweeps: the mean, then the squared deviations; nothing cancels."""
    middle = mean(b, x, axes, True)
    count = prod(x.shape[a] for a in _axes(x, axes))
    left = max(count - (1 if correction is None else correction), 0)
    away = b.one("sub", (x, middle))
    spread = reduce(b, "sum", away, axes, keepdim, of="square", scale=1 / left if left else inf)
    return spread, b.one("reshape", (middle,), shape=spread.shape)


@aten("var.correction", "std.correction")
def _var(b: Builder, x: Value, axes: Axes = None, *, op: str, correction: float | None = None,
         keepdim: bool = False) -> Value:
    spread, _ = _variance(b, x, axes, correction, keepdim)
    return b.one("sqrt", (spread,)) if op == "std" else spread


@aten("var_mean.correction")
def _var_mean(b: Builder, x: Value, axes: Axes = None, *, correction: float | None = None,
              keepdim: bool = False) -> Result:
    return _variance(b, x, axes, correction, keepdim)


@aten("linalg_vector_norm.default")
def _vector_norm(b: Builder, x: Value, order: float = 2, axes: Axes = None, keepdim: bool = False,
                 *, dtype: Any = None) -> Value:
    x = _number(b, x, dtype)
    if abs(order) == inf:
        return reduce(b, "amax" if order > 0 else "amin", x, axes, keepdim, of="abs")
    if order == 1:
        return reduce(b, "sum", x, axes, keepdim, of="abs")
    if order == 2:
        return b.one("sqrt", (reduce(b, "sum", x, axes, keepdim, of="square"),))
    if order == 0:
        there = b.one("ne", (x, b.constant(0, "f32")))
        return reduce(b, "sum", b.cast(there, "f32"), axes, keepdim)
    powers = b.one("pow", (b.one("abs", (x,)), b.constant(order, "f32")))
    total = reduce(b, "sum", powers, axes, keepdim)
    return b.one("pow", (total, b.constant(1 / order, "f32")))


@aten("cumsum.default", "cumprod.default")
def _scan(b: Builder, x: Value, axis: int, *, op: str, dtype: Any = None) -> Value:
    return b.one(op, (_number(b, x, dtype),), axis=axis % max(len(x.shape), 1))


@aten("_softmax.default", "_log_softmax.default")
def _softmax(b: Builder, x: Value, axis: int, half_to_float: bool, *, op: str) -> Value:
    return b.one(op, (x,), axis=axis % max(len(x.shape), 1))


@aten("_softmax_backward_data.default", "_log_softmax_backward_data.default")
def _softmax_grad(b: Builder, g: Value, y: Value, axis: int, _: Any, *, op: str) -> Value:
    name = op.replace("_backward_data", "_grad")
    return b.one(name, (g, y), axis=axis % max(len(y.shape), 1))
