"""Ops without arithmetic: views, transposes, constants."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels import simple
from handtorch.lower.registry import Target, cannot_lower, lowers


@lowers("reshape")
def reshape(node: Node, target: Target) -> Lowered:
    """The same bytes under another shape: no launch."""
    return Lowered((), (Alias(node.outputs[0], node.inputs[0]),))


@lowers("transpose")
def transpose(node: Node, target: Target) -> Lowered:
    (x,) = node.inputs
    if node.numbers("order") != (1, 0):
        raise cannot_lower(node, f"order {node.numbers('order')}; only matrices are known yet")
    rows, columns = x.shape
    step = simple.TRANSPOSE.step((x, node.outputs[0]), {"ROWS": rows, "COLUMNS": columns},
                                 node=target.node)
    return Lowered((step,))


@lowers("fill")
def fill(node: Node, target: Target) -> Lowered:
    (y,) = node.outputs
    step = simple.FILL.step((y,), {"COUNT": y.size, "NUMBER": node.number("number")},
                            node=target.node)
    return Lowered((step,))
