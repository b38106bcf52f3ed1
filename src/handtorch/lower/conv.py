"""Convolutions: weights packed into panels, then a tile in registers. Pictures have their channels
last, since `passes/layout.py` saw to it."""

from __future__ import annotations

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.conv import picture
from handtorch.graph.step import Lowered
from handtorch.kernels.conv import Conv, Launches, Pair
from handtorch.lower.registry import Target, lowers


@lowers("conv")
def conv(node: Node, target: Target) -> Lowered:
    (x, w, *bias), (y,) = node.inputs, node.outputs
    relu = "relu" in node.words("epilogue")
    return Lowered(_launches(node, target, x, y, w).forward(x, w, y, *bias, relu=relu))


@lowers("conv_grad_input")
def conv_grad_input(node: Node, target: Target) -> Lowered:
    (dy, w, *bias), (dx,) = node.inputs, node.outputs
    relu = "relu" in node.words("epilogue")
    return Lowered(_launches(node, target, dx, dy, w).grad_input(dy, w, dx, *bias, relu=relu))


@lowers("conv_grad_weight")
def conv_grad_weight(node: Node, target: Target) -> Lowered:
    dy, x = node.inputs
    (dw,) = node.outputs
    return Lowered(_launches(node, target, x, dy, dw).grad_weight(dy, x, dw))


def _launches(node: Node, target: Target, x: Value, y: Value, w: Value) -> Launches:
    assert node.flag("channels_last"), f"{node.op} {x}"
    groups = int(node.number("groups"))
    (n, inner, size), (_, outer, out) = picture(node, x.shape), picture(node, y.shape)
    sizes = Conv(n, groups, inner // groups, outer // groups, size, out, _pair(w.shape[:2]),
                 *(_pair(node.numbers(name)) for name in ("stride", "padding", "dilation")))
    return Launches(sizes, target.spec, target.scratch, target.node, target.flops)


def _pair(numbers: tuple[int, ...]) -> Pair:
    height, width = numbers
    return height, width
