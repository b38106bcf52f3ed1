"""Matrix products.

`epilogue` names what is done to the result before it is stored, in order: "bias" (third input),
"relu", "relu_grad" (last input is the ReLU's output)."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types


def matmul_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a matmul node, transposes undone."""
    a, b = node.inputs[0].shape, node.inputs[1].shape
    m, k = (a[1], a[0]) if node.flag("ta") else (a[0], a[1])
    k2, n = (b[1], b[0]) if node.flag("tb") else (b[0], b[1])
    assert k == k2, f"matmul of {a} and {b}"
    return m, n, k


def _result(node: Node) -> Types:
    m, n, _ = matmul_sizes(node)
    return (((m, n), "f32"),)


def _flops(node: Node) -> int:
    m, n, k = matmul_sizes(node)
    return 2 * m * n * k + len(node.words("epilogue")) * m * n


OPS = (Op("matmul", _result, _flops),)
