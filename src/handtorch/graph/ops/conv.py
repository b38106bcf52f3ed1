"""Convolutions over [N, channels, height, width]; in one dimension the height is 1. With the flag
`channels_last` pictures are [N, height, width, channels] and weights have their taps first.

A forward, B gradient of its input (which is also the forward of a transposed convolution), C
gradient of its weights. All have `stride`, `padding`, `dilation` (pairs) and `groups`. `epilogue`
names what A and B do to the result before it is stored, in order: "bias" (of each channel), "add"
(another picture), "relu", "relu_grad" (a ReLU's output); inputs follow the weight in that order."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types

# The axes of torch's weight [groups * outer, inner, taps down, taps across], inner being those of a
# group, in the order which a convolution with `channels_last` reads and gives them.
TAPS_FIRST = (2, 3, 1, 0)


def picture(node: Node, shape: Shape) -> tuple[int, int, tuple[int, int]]:
    """(N, channels, (height, width)) of a picture of this node."""
    if node.flag("channels_last"):
        n, h, w, c = shape
    else:
        n, c, h, w = shape
    return n, c, (h, w)


def _shape(node: Node, n: int, c: int, size: tuple[int, ...]) -> Shape:
    return (n, *size, c) if node.flag("channels_last") else (n, c, *size)


def _weight(node: Node, shape: Shape) -> Shape:
    """A weight's shape, of this node, as torch has it."""
    if not node.flag("channels_last"):
        return shape
    return tuple(shape[TAPS_FIRST.index(i)] for i in range(4))


def _conv_result(node: Node) -> Types:
    (n, c, x), w = picture(node, node.inputs[0].shape), _weight(node, node.inputs[1].shape)
    assert c == w[1] * node.number("groups"), f"conv of {node.inputs[0]} with {w}"
    reach = [d * (k - 1) + 1 for d, k in zip(node.numbers("dilation"), w[2:], strict=True)]
    size = tuple((s + 2 * p - r) // step + 1 for s, p, r, step in
                 zip(x, node.numbers("padding"), reach, node.numbers("stride"), strict=True))
    kept = node.numbers("size") or size
    assert all(1 <= k <= s for k, s in zip(kept, size, strict=True)), f"conv of {x} with {w}"
    return ((_shape(node, n, w[0], kept), "f32"),)


def _grad_input_result(node: Node) -> Types:
    (n, c, _), w = picture(node, node.inputs[0].shape), _weight(node, node.inputs[1].shape)
    assert c == w[0], f"conv_grad_input of {node.inputs[0]} with {w}"
    channels = w[1] * int(node.number("groups"))
    return ((_shape(node, n, channels, node.numbers("size")), "f32"),)


def _grad_weight_result(node: Node) -> Types:
    (_, outer, _), (_, inner, _) = (picture(node, v.shape) for v in node.inputs)
    dw = (outer, inner // int(node.number("groups")), *node.numbers("kernel"))
    return ((tuple(dw[i] for i in TAPS_FIRST) if node.flag("channels_last") else dw, "f32"),)


def _flops(node: Node) -> int:
    """A multiplication and an addition for each weight that each element of y meets."""
    y = node.outputs[0] if node.op == "conv" else node.inputs[0]
    w = node.outputs[0] if node.op == "conv_grad_weight" else node.inputs[1]
    met = prod(_weight(node, w.shape)[1:])
    return 2 * y.size * met + len(node.words("epilogue")) * node.outputs[0].size


OPS: tuple[Op, ...] = (
    # (x, w, ...) -> y; with `size` only its first rows and columns: what a transposed
    # convolution with much output padding had as its input.
    Op("conv", _conv_result, _flops),
    Op("conv_grad_input", _grad_input_result, _flops),      # (dy, w, ...), `size` -> dx
    Op("conv_grad_weight", _grad_weight_result, _flops),    # (dy, x), `kernel` -> dw
)
