"""Ops without arithmetic: views, copies, constants."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, like, no_flops


def _same_size(node: Node) -> Types:
    shape = node.numbers("shape")
    assert prod(shape) == node.inputs[0].size, f"reshape {node.inputs[0]} to {shape}"
    return ((shape, node.inputs[0].dtype),)


def _transposed(node: Node) -> Types:
    (x,) = node.inputs
    return ((tuple(x.shape[i] for i in node.numbers("order")), x.dtype),)


def _filled(node: Node) -> Types:
    return ((node.numbers("shape"), str(node.attrs.get("dtype", "f32"))),)


OPS = (
    Op("fill", _filled, no_flops),
    Op("reshape", _same_size, no_flops),
    Op("transpose", _transposed, no_flops),
    # (old, new) -> new, in the place of old: how a new state gets where it belongs.
    Op("assign", like(0), no_flops, in_place=((0, 0),)),
)
