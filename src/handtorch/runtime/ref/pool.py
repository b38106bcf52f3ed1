"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference

Span = tuple[int, int]


Pooling = Callable[..., Any]


def _over_the_last_axes(op: str) -> Callable[[Pooling], Pooling]:
    """Registers; where channels come last they are moved to the front, and back afterwards."""
    def register(fn: Pooling) -> Pooling:
        def moved(node: Node, *arrays: Array) -> Any:
            if not node.flag("channels_last"):
                return fn(node, *arrays)
            attrs = dict(node.attrs)
            if shape := node.numbers("shape"):
                attrs["shape"] = (*shape[:-3], shape[-1], *shape[-3:-1])
            out = fn(replace(node, attrs=attrs), *(np.moveaxis(a, -1, -3) for a in arrays))
            return tuple(np.moveaxis(o, -3, -1) for o in out) if isinstance(out, tuple) else (
                np.moveaxis(out, -3, -1))
        reference(op)(moved)
        return moved
    return register


@_over_the_last_axes("max_pool")
def _max_pool(node: Node, x: Array) -> tuple[Array, Array]:
    """Tap after tap: a later element wins only if it is larger, or NaN."""
    (height, width), size = x.shape[-2:], node.numbers("size")
    (sh, sw), (ph, pw) = node.numbers("stride"), node.numbers("padding")
    dh, dw = node.numbers("dilation")
    best = np.full((*x.shape[:-2], *size), -np.inf, x.dtype)
    where = np.full(best.shape, -1, "i4")
    for kh, kw in np.ndindex(*node.numbers("kernel")):
        h = (np.arange(size[0]) * sh - ph + kh * dh)[:, None]
        w = np.arange(size[1]) * sw - pw + kw * dw
        inside = (h >= 0) & (h < height) & (w >= 0) & (w < width)
        seen = x[..., h.clip(0, height - 1), w.clip(0, width - 1)]
        taken = inside & ((where < 0) | (seen > best) | np.isnan(seen))
        best, where = np.where(taken, seen, best), np.where(taken, h * width + w, where)
    return best, where.astype("i4")


@_over_the_last_axes("max_pool_grad")
def _max_pool_grad(node: Node, dy: Array, where: Array) -> Array:
    shape = node.numbers("shape")
    dx = np.zeros((int(np.prod(shape[:-2])), shape[-2] * shape[-1]), dy.dtype)
    planes = np.arange(len(dx))[:, None]
    np.add.at(dx, (planes, where.reshape(len(dx), -1)), dy.reshape(len(dx), -1))
    return dx.reshape(shape)


def _spans(node: Node, axis: int, inputs: int, outputs: int) -> Iterator[tuple[Span, int]]:
    """For each window on this axis the elements it holds, and how many it counts."""
    for o in range(outputs):
        if node.flag("adaptive"):
            span = o * inputs // outputs, -(-(o + 1) * inputs // outputs)
            yield span, span[1] - span[0]
            continue
        padding = node.numbers("padding")[axis]
        first = o * node.numbers("stride")[axis] - padding
        last = min(first + node.numbers("kernel")[axis], inputs + padding)
        span = max(first, 0), min(last, inputs)
        yield span, last - first if node.flag("pad_counts") else span[1] - span[0]


def _windows(node: Node, inputs: tuple[int, ...], outputs: tuple[int, ...]
             ) -> Iterator[tuple[tuple[int, int], tuple[slice, slice], float]]:
    """Each window's place in y, its elements in x, and what their sum is divided by."""
    for oh, ((top, bottom), tall) in enumerate(_spans(node, 0, inputs[0], outputs[0])):
        for ow, ((left, right), wide) in enumerate(_spans(node, 1, inputs[1], outputs[1])):
            yield ((oh, ow), (slice(top, bottom), slice(left, right)),
                   node.number("divisor", 0) or tall * wide)


@_over_the_last_axes("avg_pool")
def _avg_pool(node: Node, x: Array) -> Array:
    y = np.zeros((*x.shape[:-2], *node.numbers("size")), x.dtype)
    for (oh, ow), (rows, columns), share in _windows(node, x.shape[-2:], y.shape[-2:]):
        y[..., oh, ow] = x[..., rows, columns].sum((-2, -1)) / share
    return y


@_over_the_last_axes("avg_pool_grad")
def _avg_pool_grad(node: Node, dy: Array) -> Array:
    dx = np.zeros(node.numbers("shape"), dy.dtype)
    for (oh, ow), (rows, columns), share in _windows(node, dx.shape[-2:], dy.shape[-2:]):
        dx[..., rows, columns] += dy[..., oh, ow, None, None] / share
    return dx
