"""Pooling over the last two axes; `size` is their size afterwards.

A window is `kernel` wide every `stride`, after `padding` (pairs); of averages the flag `pad_counts`
says that padding is part of the mean, `divisor` (if not 0) what is divided by instead of the
number of elements. The flag `adaptive` splits the input into `size` parts instead."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, shape_attr


def _max_result(node: Node) -> Types:
    shape = (*node.inputs[0].shape[:-2], *node.numbers("size"))
    return (shape, "f32"), (shape, "i32")


def _avg_result(node: Node) -> Types:
    return (((*node.inputs[0].shape[:-2], *node.numbers("size")), "f32"),)


def _flops(node: Node) -> int:
    """One operation for each element of each window."""
    if node.flag("adaptive"):
        return max(node.inputs[0].size, node.outputs[0].size)
    windows = node.inputs[0] if node.op.endswith("_grad") else node.outputs[0]
    return windows.size * prod(node.numbers("kernel"))


OPS: tuple[Op, ...] = (
    # x -> (maxima, where they lie in their plane of x); also `dilation`.
    Op("max_pool", _max_result, _flops),
    Op("max_pool_grad", shape_attr, _flops),     # (dy, where), `shape` of x -> dx
    Op("avg_pool", _avg_result, _flops),
    Op("avg_pool_grad", shape_attr, _flops),     # dy, `shape` of x -> dx
)
