"""Indexing, gathering and scattering: each destination has one owner, so sums are the same."""

from __future__ import annotations

from handtorch.graph.node import Node, Value
from handtorch.graph.step import Lowered, Step
from handtorch.kernels.index import gather_step, put_step, scatter_step, take_step
from handtorch.kernels.move import fill_step
from handtorch.lower.move import NOTHING, whole
from handtorch.lower.registry import Target, lowers


@lowers("take")
def take(node: Node, target: Target) -> Lowered:
    (x, index), (y,) = node.inputs, node.outputs
    if not y.size:
        return NOTHING
    return Lowered((take_step(x, index, y, int(node.number("axis")), node.flag("wrap"),
                              node=target.node),))


@lowers("gather")
def gather(node: Node, target: Target) -> Lowered:
    (x, index), (y,) = node.inputs, node.outputs
    axis = int(node.number("axis"))
    return Lowered((gather_step(x, index, y, axis, node=target.node),)) if y.size else NOTHING


def _start(base: list[Value], y: Value, target: Target) -> tuple[Step, ...]:
    if base:
        return whole(base[0], y, target.node)
    return (fill_step(y, 0.0, node=target.node),) if y.size else ()


@lowers("put")
def put(node: Node, target: Target) -> Lowered:
    """Two launches: the start values, then what is put over them."""
    (index, src, *base), (y,) = node.inputs, node.outputs
    before = _start(base, y, target)
    if not src.size:
        return Lowered(before)
    return Lowered((*before, put_step(
        index, src, y, int(node.number("axis")), add=node.flag("add"), wrap=node.flag("wrap"),
        skip=int(node.number("skip", -1)), node=target.node, flops=target.flops)))


@lowers("scatter")
def scatter(node: Node, target: Target) -> Lowered:
    (index, src, *base), (y,) = node.inputs, node.outputs
    before = _start(base, y, target)
    if not src.size:
        return Lowered(before)
    return Lowered((*before, scatter_step(index, src, y, int(node.number("axis")),
                                          add=node.flag("add"), node=target.node,
                                          flops=target.flops)))
