"""Indexing, gathering and scattering.

With `wrap` an index from -n to -1 counts from the end. An index outside the axis reads NaN and,
where it should be written to, makes the first row NaN: no wrong result passes unnoticed."""

from __future__ import annotations

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types, no_flops


def _axis(node: Node) -> int:
    return int(node.number("axis"))


def _taken(node: Node) -> Types:
    (x, index), axis = node.inputs, _axis(node)
    return (((*x.shape[:axis], *index.shape, *x.shape[axis + 1:]), x.dtype),)


def _gathered(node: Node) -> Types:
    x, index = node.inputs
    _same_but_axis(node, x.shape, index.shape)
    return ((index.shape, x.dtype),)


def _put(node: Node) -> Types:
    index, src, *_ = node.inputs
    shape, axis = node.numbers("shape"), _axis(node)
    want = (*shape[:axis], *index.shape, *shape[axis + 1:])
    assert src.shape == want, f"put {src} at {index} into {shape}: expected {want}"
    _check_base(node)
    return ((shape, src.dtype),)


def _scattered(node: Node) -> Types:
    index, src, *_ = node.inputs
    shape = node.numbers("shape")
    assert src.shape == index.shape, f"scatter {src} at {index}"
    _same_but_axis(node, shape, index.shape)
    _check_base(node)
    return ((shape, src.dtype),)


def _same_but_axis(node: Node, one: Shape, other: Shape) -> None:
    axis = _axis(node)
    assert one[:axis] + one[axis + 1:] == other[:axis] + other[axis + 1:], (
        f"{node.op} along axis {axis}: {one} and {other}")


def _check_base(node: Node) -> None:
    _, src, *base = node.inputs
    for value in base:
        assert (value.shape, value.dtype) == (node.numbers("shape"), src.dtype), str(value)


def _added(node: Node) -> int:
    return node.inputs[1].size if node.flag("add") else 0


OPS: tuple[Op, ...] = (
    # (x, index) -> the rows of x along `axis` that the index names, in its shape
    Op("take", _taken, no_flops),
    # (x, index) -> y[a][j][b] = x[a][index[a][j][b]][b], j and the index along `axis`
    Op("gather", _gathered, no_flops),
    # (index, src[, base]) -> base, or zeros, with src written to the rows the index names, in its
    # order; added with `add`. Rows of the number `skip` are left out (-1: none)
    Op("put", _put, _added),
    # (index, src[, base]) -> base, or zeros, with y[a][index[a][j][b]][b] = src[a][j][b]
    Op("scatter", _scattered, _added),
)
