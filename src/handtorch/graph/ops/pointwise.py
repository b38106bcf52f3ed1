"""Point-wise ops, with broadcasting; `pointwise` is a fused region of them (`graph/region.py`)."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, broadcast
from handtorch.graph.region import COMPARISONS, LOGIC, parse, result_type, result_types

_UNARY = ("copy", "neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal",
          "square", "sin", "cos", "tanh", "erf", "sign", "floor", "ceil", "relu", "sigmoid",
          "to_f32", "to_i32", "bool_to_f32", "bool_to_i32")
_BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum",
           "relu_grad")                   # (gradient, output of the ReLU)
SIMPLE = (*_UNARY, *_BINARY, *COMPARISONS, *LOGIC, "where")


def _result(node: Node) -> Types:
    kind = result_type(node.op, [v.dtype for v in node.inputs])
    return ((broadcast([v.shape for v in node.inputs]), kind),)


def _region_result(node: Node) -> Types:
    kinds = [v.dtype for v in node.inputs]
    return ((node.numbers("shape"), result_types(parse(str(node.attrs["body"])), kinds)[-1]),)


def _region_flops(node: Node) -> int:
    return len(parse(str(node.attrs["body"]))) * node.outputs[0].size


OPS = (
    *(Op(name, _result, lambda n: max(v.size for v in n.outputs), pointwise=True)
      for name in SIMPLE),
    Op("pointwise", _region_result, _region_flops),
)
