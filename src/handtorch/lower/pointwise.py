"""Point-wise ops: one generated kernel each."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels.pointwise import pointwise_step
from handtorch.lower.registry import Target, lowers


@lowers("add", "sub", "mul", "relu", "relu_grad", "copy")
def pointwise(node: Node, target: Target) -> Lowered:
    names = ",".join(f"x{i}" for i in range(len(node.inputs)))
    step = pointwise_step(f"t0={node.op}({names})", node.inputs, node.outputs[0],
                          node=target.node, flops=target.flops)
    return Lowered((step,))


@lowers("scale")
def scale(node: Node, target: Target) -> Lowered:
    step = pointwise_step(f"t0=scale(x0,{node.number('factor')!r}f)", node.inputs,
                          node.outputs[0], node=target.node, flops=target.flops)
    return Lowered((step,))


@lowers("assign")
def assign(node: Node, target: Target) -> Lowered:
    """Writes the new contents over the old; the old are not read."""
    old, new = node.inputs
    step = pointwise_step("t0=copy(x0)", (new,), node.outputs[0], node=target.node)
    return Lowered((step,), (Alias(node.outputs[0], old),))
