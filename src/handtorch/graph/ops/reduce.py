"""Reductions, softmax, and the losses that are sums over rows."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, like, per_element, shape_attr


def _sum_result(node: Node) -> Types:
    shape, axes = node.inputs[0].shape, node.numbers("axes")
    if node.flag("keepdim"):
        return ((tuple(1 if i in axes else d for i, d in enumerate(shape)), "f32"),)
    return ((tuple(d for i, d in enumerate(shape) if i not in axes), "f32"),)


def _scalar(_: Node) -> Types:
    return (((), "f32"),)


def _loss_and_grad(node: Node) -> Types:
    return ((), "f32"), (node.inputs[0].shape, "f32")


OPS = (
    Op("sum", _sum_result, per_element(1)),
    Op("softmax", like(0), per_element(4)),
    Op("log_softmax", like(0), per_element(4)),
    Op("nll_loss", _scalar, per_element(1, 1)),
    Op("nll_loss_grad", shape_attr, per_element(1)),
    Op("log_softmax_grad", like(0), per_element(3)),
    # (logits, target) -> (loss, gradient of the logits); made by the pass `cross_entropy`.
    Op("cross_entropy", _loss_and_grad, per_element(7)),
)
