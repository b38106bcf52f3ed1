"""Pooling over the last two axes, or with the flag `channels_last` over the two before the last;
`size` is their size afterwards.

A window is `kernel` wide every `stride`, after `padding` (pairs); of averages the flag `pad_counts`
says that padding is part of the mean, `divisor` (if not 0) what is divided by instead of the
number of elements. The flag `adaptive` splits the input into `size` parts instead."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types, shape_attr


def planes(node: Node, shape: Shape) -> tuple[int, tuple[int, int], int]:
    """(how many, (height, width), channels) of what is pooled."""
    whole = shape if node.flag("channels_last") else (*shape, 1)
    return prod(whole[:-3]), (whole[-3], whole[-2]), whole[-1]


def _size(node: Node) -> Shape:
    x = node.inputs[0].shape
    if node.flag("channels_last"):
        return (*x[:-3], *node.numbers("size"), x[-1])
    return (*x[:-2], *node.numbers("size"))


def _max_result(node: Node) -> Types:
    return (_size(node), "f32"), (_size(node), "i32")


def _avg_result(node: Node) -> Types:
    return ((_size(node), "f32"),)


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
