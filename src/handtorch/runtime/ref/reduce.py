"""Reductions, scans and softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from handtorch.graph.node import Node
from handtorch.graph.ops.reduce import reduced_shape
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference

_FOLDS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any}
_MAPS: dict[str, Callable[[Array], Array]] = {
    "": np.asarray, "abs": np.abs, "square": np.square}


@reference(*_FOLDS)
def _fold(node: Node, x: Array) -> Array:
    mapped = _MAPS[str(node.attrs.get("of", ""))](x)
    with np.errstate(all="ignore"):
        y = _FOLDS[node.op](mapped, axis=node.numbers("axes"), keepdims=node.flag("keepdim"))
    scale = node.number("scale", 1.0)
    return np.asarray(y if scale == 1.0 else y * x.dtype.type(scale), x.dtype)


@reference("max_index", "min_index")
def _arg(node: Node, x: Array) -> tuple[Array, Array]:
    """The first of equals, NaN before all: NumPy's rule is PyTorch's."""
    axes, out = node.numbers("axes"), reduced_shape(node)
    rows = x.reshape(*x.shape[:axes[0]], prod(x.shape[a] for a in axes), *x.shape[axes[-1] + 1:])
    at = (np.argmax if node.op == "max_index" else np.argmin)(rows, axis=axes[0])
    best = np.take_along_axis(rows, np.expand_dims(at, axes[0]), axes[0])
    return best.reshape(out), at.astype("i4").reshape(out)


def _axis(node: Node) -> int:
    return int(node.number("axis", -1))


@reference("cumsum", "cumprod")
def _scan(node: Node, x: Array) -> Array:
    """Sums in float64, as PyTorch does."""
    if not x.shape:
        return x
    wide = x.astype("f8") if x.dtype.kind == "f" else x
    with np.errstate(all="ignore"):
        return np.asarray((np.cumsum if node.op == "cumsum" else np.cumprod)(wide, _axis(node)),
                          x.dtype)


def log_softmax(x: Array, axis: int = -1) -> Array:
    if not x.shape:
        return np.zeros_like(x)
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(axis, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


@reference("softmax", "log_softmax")
def _softmax(node: Node, x: Array) -> Array:
    logp = log_softmax(x, _axis(node))
    return logp if node.op == "log_softmax" else np.exp(logp)


def _total(node: Node, x: Array) -> Array:
    return np.asarray(x.sum(_axis(node), keepdims=True) if x.shape else x)


@reference("softmax_grad")
def _softmax_grad(node: Node, g: Array, y: Array) -> Array:
    return np.asarray(y * (g - _total(node, g * y)))


@reference("log_softmax_grad")
def _log_softmax_grad(node: Node, g: Array, y: Array) -> Array:
    return np.asarray(g - np.exp(y) * _total(node, g))
