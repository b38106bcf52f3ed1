"""Reductions, softmax and class losses."""

from __future__ import annotations

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("sum")
def _sum(node: Node, x: Array) -> Array:
    return np.asarray(x.sum(node.numbers("axes"), keepdims=node.flag("keepdim")))


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


@reference("softmax", "log_softmax")
def _softmax(node: Node, x: Array) -> Array:
    logp = _log_softmax(x)
    return logp if node.op == "log_softmax" else np.exp(logp)


@reference("log_softmax_grad")
def _log_softmax_grad(node: Node, g: Array, y: Array) -> Array:
    return np.asarray(g - np.exp(y) * g.sum(-1, keepdims=True))


def _hot(node: Node, labels: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """One-hot rows (all zero where ignored, NaN where no class), and each row's share."""
    used = labels != node.number("ignore")
    known = (labels >= 0) & (labels < shape[-1])
    hot = np.zeros(shape, "f8")
    hot[np.flatnonzero(used & known), labels[used & known]] = 1
    hot[used & ~known] = np.nan
    with np.errstate(divide="ignore"):
        share = 1 / np.float64(used.sum()) if node.attrs["reduction"] == "mean" else 1.0
    return hot, np.asarray(share)


@reference("nll_loss")
def _nll_loss(node: Node, logp: Array, labels: Array) -> Array:
    hot, share = _hot(node, labels, logp.shape)
    with np.errstate(invalid="ignore"):
        return np.asarray(-(logp * hot).sum() * share, logp.dtype)


@reference("nll_loss_grad")
def _nll_loss_grad(node: Node, g: Array, labels: Array) -> Array:
    hot, share = _hot(node, labels, node.numbers("shape"))
    return np.asarray(-hot * g * share, g.dtype)


@reference("cross_entropy")
def _cross_entropy(node: Node, x: Array, labels: Array) -> tuple[Array, ...]:
    logp = _log_softmax(x)
    hot, share = _hot(node, labels, x.shape)
    used = (labels != node.number("ignore"))[:, None]
    with np.errstate(invalid="ignore"):
        loss = np.asarray(-(logp * hot).sum() * share, x.dtype)
    return loss, np.asarray(np.where(used, np.exp(logp) - hot, 0) * share, x.dtype)
