"""Sums, softmax and the losses that are sums over rows."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Value
from handtorch.graph.step import Lowered, Step
from handtorch.kernels import simple
from handtorch.lower.registry import Target, cannot_lower, lowers


@lowers("sum")
def sum_(node: Node, target: Target) -> Lowered:
    """One launch for each run of neighbouring axes, from the last to the first."""
    (x,), (y,) = node.inputs, node.outputs
    runs = _runs(node.numbers("axes"))
    if not runs:
        raise cannot_lower(node, "no axis to sum over", fix="leave the sum out")
    steps: list[Step] = []
    shape = list(x.shape)
    for number, (first, last) in enumerate(reversed(runs)):
        left = number + 1 < len(runs)
        outer, inner = prod(shape[:first]), prod(shape[last + 1:])
        reduce = prod(shape[first:last + 1])
        shape[first:last + 1] = [1] * (last + 1 - first)
        out = target.scratch(tuple(shape)) if left else y
        steps.append(_sum_step(x, out, outer, reduce, inner, target))
        x = out
    return Lowered(tuple(steps))


def _runs(axes: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for axis in sorted(axes):
        if runs and runs[-1][1] == axis - 1:
            runs[-1] = (runs[-1][0], axis)
        else:
            runs.append((axis, axis))
    return runs


def _sum_step(x: Value, y: Value, outer: int, reduce: int, inner: int, target: Target) -> Step:
    if inner == 1:
        sizes = {"OUTER": outer, "REDUCE": reduce, "SCALE": 1.0}
        return simple.SUM_ROW.step((x, y), sizes, node=target.node, flops=outer * reduce)
    sizes = {"OUTER": outer, "REDUCE": reduce, "INNER": inner}
    return simple.SUM_AXIS.step((x, y), sizes, node=target.node, flops=outer * reduce * inner)


def _rows(x: Value) -> dict[str, int]:
    return {"ROWS": prod(x.shape[:-1]), "COLUMNS": x.shape[-1]}


@lowers("softmax", "log_softmax")
def softmax(node: Node, target: Target) -> Lowered:
    step = simple.SOFTMAX_ROW.step((*node.inputs, *node.outputs), _rows(node.inputs[0]),
                                   {"LOG": int(node.op == "log_softmax")}, node=target.node,
                                   flops=target.flops)
    return Lowered((step,))


@lowers("log_softmax_grad")
def log_softmax_grad(node: Node, target: Target) -> Lowered:
    step = simple.LOG_SOFTMAX_GRAD.step((*node.inputs, *node.outputs), _rows(node.inputs[0]),
                                        node=target.node, flops=target.flops)
    return Lowered((step,))


def _count(node: Node, labels: Value, target: Target) -> tuple[Value, Step]:
    """1 / (number of rows that count), or 1 for a sum, in a scratch value."""
    share = target.scratch((1,))
    sizes = {"ROWS": labels.size, "IGNORE": int(node.number("ignore"))}
    mean = {"MEAN": int(node.attrs["reduction"] == "mean")}
    return share, simple.COUNT_TARGETS.step((labels, share), sizes, mean, node=target.node)


def _total(rows: Value, share: Value, out: Value, target: Target) -> Step:
    return simple.WEIGHTED_SUM.step((rows, share, out), {"COUNT": rows.size}, node=target.node,
                                    flops=rows.size)


@lowers("nll_loss")
def nll_loss(node: Node, target: Target) -> Lowered:
    logp, labels = node.inputs
    share, count = _count(node, labels, target)
    rows = target.scratch(labels.shape)
    sizes = {**_rows(logp), "IGNORE": int(node.number("ignore"))}
    pick = simple.NLL_ROWS.step((logp, labels, rows), sizes, node=target.node)
    return Lowered((count, pick, _total(rows, share, node.outputs[0], target)))


@lowers("nll_loss_grad")
def nll_loss_grad(node: Node, target: Target) -> Lowered:
    grad, labels = node.inputs
    (dx,) = node.outputs
    share, count = _count(node, labels, target)
    sizes = {**_rows(dx), "IGNORE": int(node.number("ignore"))}
    step = simple.NLL_GRAD.step((grad, labels, share, dx), sizes, node=target.node)
    return Lowered((count, step))


@lowers("cross_entropy")
def cross_entropy(node: Node, target: Target) -> Lowered:
    """Count the rows that count, losses and gradient of each row, then their mean or sum."""
    logits, labels = node.inputs
    loss, dx = node.outputs
    share, count = _count(node, labels, target)
    rows = target.scratch(labels.shape)
    sizes = {**_rows(logits), "IGNORE": int(node.number("ignore"))}
    step = simple.CROSS_ENTROPY.step((logits, labels, share, rows, dx), sizes, node=target.node,
                                     flops=target.flops)
    return Lowered((count, step, _total(rows, share, loss, target)))
