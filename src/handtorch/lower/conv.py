"""Convolutions: weights (or dy) packed into panels, then a tile in registers; few channels in a
group need no packing."""

from __future__ import annotations

from handtorch.graph.node import Node, Value
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
    groups = int(node.number("groups"))
    sizes = Conv(x.shape[0], groups, x.shape[1] // groups, y.shape[1] // groups, _pair(x.shape[2:]),
                 _pair(y.shape[2:]), _pair(w.shape[2:]),
                 *(_pair(node.numbers(name)) for name in ("stride", "padding", "dilation")))
    return Launches(sizes, target.spec, target.scratch, target.node, target.flops)


def _pair(numbers: tuple[int, ...]) -> Pair:
    height, width = numbers
    return height, width
