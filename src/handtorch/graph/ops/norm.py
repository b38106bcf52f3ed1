"""Normalisation: its statistics and the sums its gradients need; the rest is point-wise.

`split` = (planes, channels, size) says how the input is seen; statistics are per channel. `scale`
is 1 / sqrt(variance + eps)."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, per_element


def _stats(node: Node) -> Types:
    x, *running = node.inputs
    split = node.numbers("split")
    assert prod(split) == x.size, f"{x} as {split}"
    per_channel = ((split[1],), "f32")
    return (per_channel, per_channel, *((v.shape, v.dtype) for v in running))


def _grad_sums(node: Node) -> Types:
    per_channel = ((node.numbers("split")[1],), "f32")
    return per_channel, per_channel


def row_shape(node: Node) -> tuple[int, ...]:
    """The input's shape with every axis from `axis` on made 1."""
    shape, axis = node.inputs[0].shape, int(node.number("axis"))
    return (*shape[:axis], *(1 for _ in shape[axis:]))


def _layer_norm(node: Node) -> Types:
    return ((node.inputs[0].shape, "f32"), (row_shape(node), "f32"), (row_shape(node), "f32"))


def _layer_norm_grad(node: Node) -> Types:
    x = node.inputs[1].shape
    affine = (x[int(node.number("axis")):], "f32")
    return ((x, "f32"), affine, affine) if node.flag("affine") else ((x, "f32"),)


OPS: tuple[Op, ...] = (
    # (x[, running mean, running variance]) -> (mean, scale[, both moved by `momentum`]).
    Op("norm_stats", _stats, per_element(4), in_place=((2, 1), (3, 2))),
    # (g, x, mean, scale) -> (sums of g * (x - mean) * scale, sums of g); `share` neighbouring
    # channels have one mean.
    Op("norm_grad_sums", _grad_sums, per_element(4)),
    # (x[, weight[, bias]]) -> (y, mean, scale) over the axes from `axis` on.
    Op("layer_norm", _layer_norm, per_element(8)),
    # (g, x, mean, scale[, weight]) -> (dx[, dweight, dbias] if `affine`).
    Op("layer_norm_grad", _layer_norm_grad, per_element(12)),
)
