"""Which problem a node is for the families of kernels that have variants: what can be tuned."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.product import batch, matmul_sizes
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.variant import Problem
from handtorch.lower.conv import conv_pass


def problem_of(node: Node) -> Problem | None:
    """The problem that lowering this node asks a variant for; None if it asks for none."""
    if not all(v.size for v in node.outputs):
        return None
    ta, tb = node.flag("ta"), node.flag("tb")
    match node.op:
        case "matmul" | "matmul_sgd":
            a = node.inputs[0 if node.op == "matmul" else 1].shape
            m, n = node.outputs[0].shape
            return Product(m, n, a[0] if ta else a[1], ta, tb)
        case "bmm":
            count = batch(node)
            one_a, one_b = (v.shape[0] == 1 < count for v in node.inputs)
            return Batch(count, *matmul_sizes(node), ta, tb, one_a, one_b)
        case "conv" | "conv_grad_input" | "conv_grad_weight":
            return conv_pass(node)
    return None
