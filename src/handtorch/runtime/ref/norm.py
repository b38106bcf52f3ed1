"""Normalisation."""

from __future__ import annotations

from math import prod

import numpy as np

from handtorch.graph.node import Node
from handtorch.graph.ops.norm import row_shape
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("norm_stats")
def _stats(node: Node, x: Array, *running: Array) -> tuple[Array, ...]:
    split = x.reshape(node.numbers("split"))
    kind = x.dtype.type
    mean, var = split.mean((0, 2)), split.var((0, 2))
    scale = np.asarray(1 / np.sqrt(var + kind(node.number("eps"))), x.dtype)
    if not running:
        return mean, scale
    count, momentum = split.shape[0] * split.shape[2], kind(node.number("momentum"))
    with np.errstate(all="ignore"):
        unbiased = np.asarray(var * kind(np.float64(count) / (count - 1)), x.dtype)
    old_mean, old_var = running
    return (mean, scale, (1 - momentum) * old_mean + momentum * mean,
            (1 - momentum) * old_var + momentum * unbiased)


@reference("norm_grad_sums")
def _grad_sums(node: Node, g: Array, x: Array, mean: Array, scale: Array) -> tuple[Array, ...]:
    split, share = node.numbers("split"), int(node.number("share", 1))
    g, x = g.reshape(split), x.reshape(split)
    middle, by = (np.repeat(a.reshape(-1), share)[:, None] for a in (mean, scale))
    return (g * ((x - middle) * by)).sum((0, 2)), g.sum((0, 2))


@reference("layer_norm")
def _layer_norm(node: Node, x: Array, *affine: Array) -> tuple[Array, ...]:
    axes = tuple(range(int(node.number("axis")), x.ndim))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    scale = np.asarray(1 / np.sqrt(var + x.dtype.type(node.number("eps"))), x.dtype)
    y = (x - mean) * scale
    if affine:
        y = y * affine[0]
    if len(affine) > 1:
        y = y + affine[1]
    return y, mean.reshape(row_shape(node)), scale.reshape(row_shape(node))


@reference("layer_norm_grad")
def _layer_norm_grad(node: Node, g: Array, x: Array, mean: Array, scale: Array, *weight: Array
                     ) -> tuple[Array, ...]:
    axis = int(node.number("axis"))
    axes = tuple(range(axis, x.ndim))
    count = x.dtype.type(prod(x.shape[axis:]))
    h, u = (x - mean) * scale, g * weight[0] if weight else g
    dx = scale * (u - u.sum(axes, keepdims=True) / count
                  - h * ((u * h).sum(axes, keepdims=True) / count))
    if not node.flag("affine"):
        return (dx,)
    rows = tuple(range(axis))
    return dx, (g * h).sum(rows), g.sum(rows)
