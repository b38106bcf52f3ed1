"""Normalisation: chunk sums, then a fold; layer-norm in one launch each way."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Value
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels import norm
from handtorch.lower.registry import Target, lowers


def _chunks(node: Node, target: Target) -> tuple[norm.Chunks, Value]:
    planes, channels, size = node.numbers("split")
    chunks = norm.Chunks.of(planes, channels, size, target.spec)
    return chunks, target.scratch((chunks.count, 2, channels))


@lowers("norm_stats")
def norm_stats(node: Node, target: Target) -> Lowered:
    """Running statistics are moved in place."""
    x, *running = node.inputs
    chunks, parts = _chunks(node, target)
    steps = norm.stats_steps(chunks, x, parts, node.outputs, eps=node.number("eps"),
                             momentum=node.number("momentum", 0.0), node=target.node,
                             flops=target.flops)
    moved = zip(node.outputs[2:], running, strict=True)
    return Lowered(tuple(steps), tuple(Alias(new, old) for new, old in moved))


@lowers("norm_grad_sums")
def norm_grad_sums(node: Node, target: Target) -> Lowered:
    chunks, parts = _chunks(node, target)
    return Lowered(tuple(norm.grad_sum_steps(
        chunks, node.inputs, parts, node.outputs, share=int(node.number("share", 1)),
        node=target.node, flops=target.flops)))


@lowers("layer_norm")
def layer_norm(node: Node, target: Target) -> Lowered:
    x, *affine = node.inputs
    columns = prod(x.shape[int(node.number("axis")):])
    sizes = {"ROWS": x.size // columns, "COLUMNS": columns, "EPS": node.number("eps")}
    step = norm.LAYER_NORM.step((x, *affine, *node.outputs), sizes, {"AFFINE": len(affine)},
                                node=target.node, flops=target.flops,
                                access=["r"] * (1 + len(affine)) + ["w"] * 3)
    return Lowered((step,))


@lowers("layer_norm_grad")
def layer_norm_grad(node: Node, target: Target) -> Lowered:
    """dx row by row; the gradients of weight and bias by columns, in chunks of rows."""
    dx, *affine = node.outputs
    weight = node.inputs[4:]
    columns = prod(dx.shape[int(node.number("axis")):])
    rows = dx.size // columns
    steps = [norm.LAYER_NORM_GRAD.step(
        (*node.inputs, dx), {"ROWS": rows, "COLUMNS": columns}, {"WEIGHTED": len(weight)},
        node=target.node, flops=target.flops, access=["r"] * len(node.inputs) + ["w"])]
    if affine:
        chunks = norm.Chunks.of(rows, columns, 1, target.spec)
        parts = target.scratch((chunks.count, 2, columns))
        steps += norm.grad_sum_steps(chunks, node.inputs[:4], parts, affine, by_row=True,
                                     node=target.node)
    return Lowered(tuple(steps))
