"""Class losses over log-probabilities [m, classes, ...] and targets [m, ...].

`reduction` is "mean", "sum" or "none"; targets equal to `ignore` count for nothing; a target that
is no class gives NaN. A third input holds a weight for each class."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types, per_element, shape_attr


def class_sizes(shape: Shape) -> tuple[int, int, int]:
    """(outer, classes, inner): classes are the second axis, or the only one."""
    if len(shape) == 1:
        return 1, shape[0], 1
    return shape[0], shape[1], prod(shape[2:])


def _loss(node: Node) -> Types:
    return ((node.inputs[1].shape if node.attrs["reduction"] == "none" else (), "f32"),)


def _loss_and_grad(node: Node) -> Types:
    return ((), "f32"), (node.inputs[0].shape, "f32")


OPS = (
    Op("nll_loss", _loss, per_element(1, 1)),               # (log-probabilities, target[, weight])
    Op("nll_loss_grad", shape_attr, per_element(1)),        # (gradient, target[, weight])
    # (logits, target) -> (loss, gradient of the logits); made by the pass `cross_entropy`.
    Op("cross_entropy", _loss_and_grad, per_element(7)),
)
