"""Point-wise ops, with broadcasting."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, broadcast


def _result(node: Node) -> Types:
    return ((broadcast([v.shape for v in node.inputs]), node.inputs[0].dtype),)


def _pointwise(name: str, flops: int = 1) -> Op:
    return Op(name, _result, lambda n: flops * max(v.size for v in n.outputs), pointwise=True)


OPS = (
    _pointwise("add"), _pointwise("sub"), _pointwise("mul"), _pointwise("relu"),
    _pointwise("relu_grad"),                      # (gradient, output of the ReLU)
    _pointwise("scale"),                          # x * factor
    _pointwise("copy", 0),
)
