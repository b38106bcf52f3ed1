"""Point-wise ops and regions: one generated kernel each."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.pointwise import SIMPLE
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels.pointwise import pointwise_step
from handtorch.lower.registry import Target, lowers


@lowers("pointwise")
def region(node: Node, target: Target) -> Lowered:
    return Lowered((pointwise_step(str(node.attrs["body"]), node.inputs, node.outputs[0],
                                   spec=target.spec, node=target.node,
                                   flops=target.flops),))


@lowers(*SIMPLE)
def simple(node: Node, target: Target) -> Lowered:
    """An op that no pass put into a region is a region of its own."""
    names = ",".join(f"x{i}" for i in range(len(node.inputs)))
    return Lowered((pointwise_step(f"{node.op}({names})", node.inputs, node.outputs[0],
                                   spec=target.spec, node=target.node,
                                   flops=target.flops),))


@lowers("assign")
def assign(node: Node, target: Target) -> Lowered:
    """Writes the new contents over the old; the old are not read."""
    old, new = node.inputs
    step = pointwise_step("copy(x0)", (new,), node.outputs[0], spec=target.spec, node=target.node)
    return Lowered((step,), (Alias(node.outputs[0], old),))
