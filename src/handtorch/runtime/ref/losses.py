"""Class losses."""

from __future__ import annotations

import numpy as np

from handtorch.graph.node import Node
from handtorch.graph.ops.losses import class_sizes
from handtorch.runtime.device import Array
from handtorch.runtime.ref.reduce import log_softmax
from handtorch.runtime.ref.registry import reference


def _hot(node: Node, labels: Array, shape: tuple[int, ...], *weight: Array) -> tuple[Array, Array]:
    """Weights at the targets, [outer, classes, inner] (all zero where ignored, NaN where there
    is no such class), and what a mean divides by."""
    outer, classes, inner = class_sizes(shape)
    target = labels.reshape(outer, 1, inner)
    used = target != node.number("ignore")
    known = (target >= 0) & (target < classes)
    weights = (weight[0] if weight else np.ones(classes)).astype("f8").reshape(1, classes, 1)
    hot = np.where(target == np.arange(classes).reshape(1, classes, 1), weights, 0.0)
    hot = np.where(known, hot, np.nan)
    hot = np.where(used, hot, 0.0)
    if node.attrs["reduction"] != "mean":
        return hot, np.ones(())
    return hot, np.asarray(hot.sum() if weight else np.float64(used.sum()))


@reference("nll_loss")
def _nll_loss(node: Node, logp: Array, labels: Array, *weight: Array) -> Array:
    hot, total = _hot(node, labels, logp.shape, *weight)
    picked = logp.reshape(hot.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = -np.where(hot == 0, 0.0, picked * hot).sum(1)
        if node.attrs["reduction"] == "none":
            return np.asarray(rows.reshape(labels.shape), logp.dtype)
        return np.asarray(rows.sum() / total, logp.dtype)


@reference("nll_loss_grad")
def _nll_loss_grad(node: Node, g: Array, labels: Array, *weight: Array) -> Array:
    shape = node.numbers("shape")
    hot, total = _hot(node, labels, shape, *weight)
    each = node.attrs["reduction"] == "none"
    with np.errstate(invalid="ignore", divide="ignore"):
        part = -(g.reshape(hot.shape[0], 1, hot.shape[2]) if each else g) / total
        return np.asarray(np.where(hot == 0, 0.0, hot * part).reshape(shape), g.dtype)


@reference("cross_entropy")
def _cross_entropy(node: Node, x: Array, labels: Array) -> tuple[Array, ...]:
    logp = log_softmax(x)
    hot, total = _hot(node, labels, x.shape)
    hot = hot.reshape(x.shape)
    used = (labels != node.number("ignore"))[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = np.asarray(-(logp * hot).sum() / total, x.dtype)
        return loss, np.asarray(np.where(used, (np.exp(logp) - hot) / total, 0), x.dtype)
