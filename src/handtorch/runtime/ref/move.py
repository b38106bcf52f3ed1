"""Views, copies, constants."""

from __future__ import annotations

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Node, Shape
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("fill")
def _fill(node: Node) -> Array:
    kind = dtype(str(node.attrs.get("dtype", "f32"))).numpy
    return np.full(node.numbers("shape"), node.number("number"), kind)


@reference("arange")
def _arange(node: Node) -> Array:
    start, step, count = (int(node.number(k)) for k in ("start", "step", "count"))
    return np.asarray(start + step * np.arange(count), "i4")


@reference("reshape")
def _reshape(node: Node, x: Array) -> Array:
    return x.reshape(node.numbers("shape"))


@reference("transpose")
def _transpose(node: Node, x: Array) -> Array:
    return x.transpose(node.numbers("order"))


@reference("expand")
def _expand(node: Node, x: Array) -> Array:
    return np.asarray(np.broadcast_to(x, node.numbers("shape")))


def _box(node: Node, part: Shape) -> tuple[Array, ...]:
    """Open index grids of the box, so that steps of either sign read alike."""
    rows = [start + step * np.arange(count) for start, step, count in
            zip(node.numbers("starts"), node.numbers("steps"), part, strict=True)]
    return np.ix_(*rows)


@reference("slice")
def _slice(node: Node, x: Array) -> Array:
    return np.asarray(x[_box(node, node.numbers("shape"))])


@reference("pad")
def _pad(node: Node, x: Array) -> Array:
    y = np.full(node.numbers("shape"), node.number("number"), x.dtype)
    y[_box(node, x.shape)] = x
    return y


@reference("put_slice")
def _put_slice(node: Node, base: Array, x: Array) -> Array:
    y = base.copy()
    y[_box(node, x.shape)] = x
    return y


@reference("cat")
def _cat(node: Node, *parts: Array) -> Array:
    return np.concatenate(parts, int(node.number("axis")))


@reference("assign")
def _assign(node: Node, old: Array, new: Array) -> Array:
    return new
