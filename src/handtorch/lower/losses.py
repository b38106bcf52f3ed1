"""Class losses: count what counts, then rows, then their sum."""

from __future__ import annotations

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.losses import class_sizes
from handtorch.graph.step import Lowered, Step
from handtorch.kernels import losses
from handtorch.lower.registry import Target, lowers


def _count(node: Node, classes: int, target: Target) -> tuple[list[Value], list[Step]]:
    """The scratch value that holds the sum of weights, and its steps; none unless a mean."""
    if node.attrs["reduction"] != "mean":
        return [], []
    _, labels, *weight = node.inputs
    total = target.scratch((1,))
    steps = losses.count_steps(labels, weight[0] if weight else None, total, classes=classes,
                               ignore=int(node.number("ignore")), scratch=target.scratch,
                               node=target.node)
    return [total], steps


def _sizes(node: Node, shape: tuple[int, ...]) -> dict[str, int]:
    outer, classes, inner = class_sizes(shape)
    return {"OUTER": outer, "CLASSES": classes, "INNER": inner, "COUNT": outer * inner,
            "IGNORE": int(node.number("ignore"))}


@lowers("nll_loss")
def nll_loss(node: Node, target: Target) -> Lowered:
    logp, labels, *weight = node.inputs
    (loss,) = node.outputs
    sizes = _sizes(node, logp.shape)
    each = node.attrs["reduction"] == "none"
    rows = loss if each else target.scratch(labels.shape)
    n, steps = _count(node, sizes["CLASSES"], target)
    steps.append(losses.NLL_ROWS.step((logp, labels, *weight, rows), sizes,
                                      {"WEIGHTED": len(weight)}, node=target.node,
                                      access=["r"] * (2 + len(weight)) + ["w"]))
    if not each:
        steps += losses.total_steps(rows, n[0] if n else None, loss, scratch=target.scratch,
                                    node=target.node)
    return Lowered(tuple(steps))


@lowers("nll_loss_grad")
def nll_loss_grad(node: Node, target: Target) -> Lowered:
    grad, labels, *weight = node.inputs
    (dx,) = node.outputs
    sizes = _sizes(node, dx.shape)
    n, steps = _count(node, sizes["CLASSES"], target)
    steps.append(losses.nll_grad_step(
        (grad, labels, *weight, *n, dx), sizes, weighted=len(weight), mean=len(n),
        each=node.attrs["reduction"] == "none", cpu=target.spec.kind == "cpu", node=target.node))
    return Lowered(tuple(steps))


@lowers("cross_entropy")
def cross_entropy(node: Node, target: Target) -> Lowered:
    """Count the rows that count, losses and gradient of each row, then their mean or sum."""
    logits, labels = node.inputs
    loss, dx = node.outputs
    return Lowered(tuple(losses.cross_entropy_steps(
        logits, labels, loss, dx, mean=node.attrs["reduction"] == "mean",
        ignore=int(node.number("ignore")), spec=target.spec, scratch=target.scratch,
        node=target.node, flops=target.flops)))
