"""Reductions, scans and softmax."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.reduce import axis_sizes
from handtorch.graph.step import Lowered, Step
from handtorch.kernels.reduce import (
    arg_steps,
    fold_steps,
    scan_step,
    softmax_grad_step,
    softmax_step,
)
from handtorch.lower.registry import Target, cannot_lower, lowers


@lowers("sum", "prod", "amax", "amin", "any")
def reduction(node: Node, target: Target) -> Lowered:
    """One or two launches for each run of neighbouring axes, from the last to the first."""
    (x,), (y,) = node.inputs, node.outputs
    runs = _runs(node.numbers("axes"))
    if not runs:
        raise cannot_lower(node, "no axis to reduce", fix="leave the reduction out")
    steps: list[Step] = []
    shape = list(x.shape)
    for number, (first, last) in enumerate(reversed(runs)):
        is_last = number + 1 == len(runs)
        sizes = (prod(shape[:first]), prod(shape[first:last + 1]), prod(shape[last + 1:]))
        shape[first:last + 1] = [1] * (last + 1 - first)
        out = y if is_last else replace(target.scratch(tuple(shape)), dtype=x.dtype)
        steps += fold_steps(x, out, sizes, node.op, scratch=target.scratch, node=target.node,
                            of=str(node.attrs.get("of", "")) if number == 0 else "",
                            scale=node.number("scale", 1.0) if is_last else 1.0)
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


@lowers("max_index", "min_index")
def arg(node: Node, target: Target) -> Lowered:
    (x,), (best, where) = node.inputs, node.outputs
    runs = _runs(node.numbers("axes"))
    if len(runs) != 1:
        raise cannot_lower(node, "an index needs one run of axes", fix="reshape before")
    ((first, last),) = runs
    sizes = (prod(x.shape[:first]), prod(x.shape[first:last + 1]), prod(x.shape[last + 1:]))
    return Lowered(tuple(arg_steps(x, best, where, sizes, largest=node.op == "max_index",
                                   scratch=target.scratch, node=target.node)))


@lowers("cumsum", "cumprod")
def scan(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    return Lowered((scan_step(x, y, axis_sizes(node),
                              product=node.op == "cumprod", node=target.node),))


@lowers("softmax", "log_softmax")
def softmax(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    return Lowered((softmax_step(x, y, axis_sizes(node),
                                 log=node.op == "log_softmax", node=target.node,
                                 flops=target.flops),))


@lowers("softmax_grad", "log_softmax_grad")
def softmax_grad(node: Node, target: Target) -> Lowered:
    (g, y), (dx,) = node.inputs, node.outputs
    return Lowered((softmax_grad_step(g, y, dx, axis_sizes(node),
                                      log=node.op == "log_softmax_grad", node=target.node,
                                      flops=target.flops),))
