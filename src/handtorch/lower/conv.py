"""Convolutions: weights packed into panels, then a tile in registers. Pictures have their channels
last, since `passes/layout.py` saw to it."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.conv import picture
from handtorch.graph.step import Lowered
from handtorch.kernels.conv import Conv, Epilogue, Launches, Pair
from handtorch.kernels.conv_tiles import ConvPass, Op
from handtorch.lower.registry import Target, lowers


@lowers("conv")
def conv(node: Node, target: Target) -> Lowered:
    (x, w, *_), (y,) = node.inputs, node.outputs
    return Lowered(_launches(node, target).forward(x, w, y, _epilogue(node)))


@lowers("conv_grad_input")
def conv_grad_input(node: Node, target: Target) -> Lowered:
    (dy, w, *_), (dx,) = node.inputs, node.outputs
    return Lowered(_launches(node, target).grad_input(dy, w, dx, _epilogue(node)))


def _epilogue(node: Node) -> Epilogue:
    words, rest = node.words("epilogue"), list(node.inputs[2:])
    bias, more, mask = (rest.pop(0) if word in words else None
                        for word in ("bias", "add", "relu_grad"))
    return Epilogue(bias, more, "relu" in words, mask)


@lowers("conv_grad_weight")
def conv_grad_weight(node: Node, target: Target) -> Lowered:
    dy, x = node.inputs
    (dw,) = node.outputs
    return Lowered(_launches(node, target).grad_weight(dy, x, dw))


def conv_pass(node: Node) -> ConvPass:
    """Which convolution a node is, and which pass of it."""
    assert node.flag("channels_last"), f"{node.op} {node.inputs[0]}"
    first, second, out = *node.inputs[:2], node.outputs[0]
    op, x, y, w = _PASSES[node.op](first, second, out)
    groups = int(node.number("groups"))
    (n, inner, size), (_, outer, made) = picture(node, x.shape), picture(node, y.shape)
    return ConvPass(op, Conv(n, groups, inner // groups, outer // groups, size, made,
                             _pair(w.shape[:2]), *(_pair(node.numbers(name)) for name in
                                                   ("stride", "padding", "dilation"))))


# From the operands of a node in their order: the pass, x, y and w.
_PASSES: dict[str, Callable[[Value, Value, Value], tuple[Op, Value, Value, Value]]] = {
    "conv": lambda x, w, y: ("conv", x, y, w),
    "conv_grad_input": lambda dy, w, dx: ("conv_grad_input", dx, dy, w),
    "conv_grad_weight": lambda dy, x, dw: ("conv_grad_weight", x, dy, dw)}


def _launches(node: Node, target: Target) -> Launches:
    return Launches(conv_pass(node).conv, target.spec, target.scratch, target.node, target.flops)


def _pair(numbers: tuple[int, ...]) -> Pair:
    height, width = numbers
    return height, width
