"""Convolutions over [N, channels, height, width]; in one dimension the height is 1.

A forward, B gradient of its input (which is also the forward of a transposed convolution), C
gradient of its weights. All have `stride`, `padding`, `dilation` (pairs) and `groups`. `epilogue`
names what A and B do to the result before it is stored, in order: "bias" (third input), "relu"."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types


def _conv_result(node: Node) -> Types:
    x, w = node.inputs[0].shape, node.inputs[1].shape
    assert x[1] == w[1] * node.number("groups"), f"conv of {x} with {w}"
    reach = [d * (k - 1) + 1 for d, k in zip(node.numbers("dilation"), w[2:], strict=True)]
    size = tuple((s + 2 * p - r) // step + 1 for s, p, r, step in
                 zip(x[2:], node.numbers("padding"), reach, node.numbers("stride"), strict=True))
    kept = node.numbers("size") or size
    assert all(1 <= k <= s for k, s in zip(kept, size, strict=True)), f"conv of {x} with {w}"
    return (((x[0], w[0], *kept), "f32"),)


def _grad_input_result(node: Node) -> Types:
    dy, w = node.inputs[0].shape, node.inputs[1].shape
    assert dy[1] == w[0], f"conv_grad_input of {dy} with {w}"
    return (((dy[0], w[1] * int(node.number("groups")), *node.numbers("size")), "f32"),)


def _grad_weight_result(node: Node) -> Types:
    dy, x = node.inputs[0].shape, node.inputs[1].shape
    return (((dy[1], x[1] // int(node.number("groups")), *node.numbers("kernel")), "f32"),)


def _flops(node: Node) -> int:
    """A multiplication and an addition for each weight that each element of y meets."""
    y = node.outputs[0] if node.op == "conv" else node.inputs[0]
    w = node.outputs[0] if node.op == "conv_grad_weight" else node.inputs[1]
    return 2 * y.size * prod(w.shape[1:]) + len(node.words("epilogue")) * node.outputs[0].size


OPS: tuple[Op, ...] = (
    # (x, w[, bias]) -> y; with `size` only its first rows and columns: what a transposed
    # convolution with much output padding had as its input.
    Op("conv", _conv_result, _flops),
    Op("conv_grad_input", _grad_input_result, _flops),      # (dy, w[, bias]), `size` -> dx
    Op("conv_grad_weight", _grad_weight_result, _flops),    # (dy, x), `kernel` -> dw
)
