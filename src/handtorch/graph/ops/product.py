"""Matrix products.

`epilogue` names what is done to the result before it is stored, in order: "bias" (third input),
"relu", "relu_grad" (last input is the ReLU's output)."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types


def matmul_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a product, transposes undone."""
    a, b = node.inputs[0].shape[-2:], node.inputs[1].shape[-2:]
    m, k = (a[1], a[0]) if node.flag("ta") else (a[0], a[1])
    k2, n = (b[1], b[0]) if node.flag("tb") else (b[0], b[1])
    assert k == k2, f"{node.op} of {a} and {b}"
    return m, n, k


def _result(node: Node) -> Types:
    m, n, _ = matmul_sizes(node)
    return (((m, n), "f32"),)


def _flops(node: Node) -> int:
    m, n, k = matmul_sizes(node)
    return 2 * m * n * k + len(node.words("epilogue")) * m * n


def batch(node: Node) -> int:
    """How many products a `bmm` is; an operand with one matrix takes part in all of them."""
    counts: Shape = (node.inputs[0].shape[0], node.inputs[1].shape[0])
    assert min(counts) in (1, max(counts)), f"bmm of {node.inputs[0]} and {node.inputs[1]}"
    return max(counts) if 0 not in counts else 0


def _batch_result(node: Node) -> Types:
    m, n, _ = matmul_sizes(node)
    return (((batch(node), m, n), "f32"),)


def _batch_flops(node: Node) -> int:
    m, n, k = matmul_sizes(node)
    return 2 * batch(node) * m * n * k


def _updated(node: Node) -> Types:
    kept = (node.inputs[0], *node.inputs[4:])
    return tuple((v.shape, v.dtype) for v in kept)


def _update_flops(node: Node) -> int:
    product = replace(node, op="matmul", inputs=node.inputs[1:3], outputs=())
    return _flops(product) + 4 * node.inputs[0].size


def _weights(node: Node) -> Types:
    d, *xs = node.inputs
    sums: Types = (((d.shape[1],), "f32"),) if node.flag("sums") else ()
    return *(((d.shape[1], x.shape[1]), "f32") for x in xs), *sums


def _weights_flops(node: Node) -> int:
    d, *xs = node.inputs
    return d.size * (2 * sum(x.shape[1] for x in xs) + node.flag("sums"))


OPS = (
    Op("matmul", _result, _flops),
    # (weight, a, b, learning rate[, momentum]): `sgd` by the gradient op(a) op(b), which is not
    # kept; attributes of both.
    Op("matmul_sgd", _updated, _update_flops, in_place=((0, 0), (1, 4))),
    # [B, M, K] x [B, K, N] -> [B, M, N]; each may have one matrix only; flags `ta`, `tb`
    Op("bmm", _batch_result, _batch_flops),
    # (d [K, M], x [K, N], [another x]) -> (d^T x for each, [the sums of d's columns, if `sums`])
    Op("weights_grad", _weights, _weights_flops),
)
