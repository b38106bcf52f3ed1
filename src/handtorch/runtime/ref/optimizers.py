"""Optimizer updates."""

from __future__ import annotations

from math import log

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


def _direction(node: Node, w: Array, g: Array) -> Array:
    """The gradient with its sign, and with weight decay as a part of it."""
    signed = -g if node.flag("maximize") else g
    return np.asarray(signed + w.dtype.type(node.number("decay")) * w)


def _mean(old: Array, new: Array, keep: float) -> Array:
    """The running mean moves by `1 - keep` of the way to `new`."""
    return np.asarray(old + old.dtype.type(1 - keep) * (new - old))


@reference("tick")
def _tick(node: Node, steps: Array, lr: Array) -> tuple[Array, Array]:
    kind = steps.dtype.type
    now = steps + kind(1)
    size = lr[0] / (1 + (now - 1) * kind(node.number("lr_decay")))
    first, second = (_bias(now, node.number(b)) for b in ("beta1", "beta2"))
    shrink = kind(1) - lr[0] * kind(node.number("decay"))
    return now, np.stack([size / first, 1 / np.sqrt(second), shrink]).astype(kind)


def _bias(steps: Array, beta: float) -> Array:
    """1 - beta^steps without the cancellation of the subtraction; 1 for beta 0."""
    if not beta:
        return np.ones_like(steps)
    return np.asarray(-np.expm1(steps * steps.dtype.type(log(beta))))


@reference("sgd")
def _sgd(node: Node, w: Array, g: Array, lr: Array, *moment: Array) -> tuple[Array, ...]:
    return new_weight(node, w, g, lr, *moment)


def new_weight(node: Node, w: Array, g: Array, lr: Array, *moment: Array) -> tuple[Array, ...]:
    """SGD's, and the new momentum if there is one."""
    d = _direction(node, w, g)
    if not moment:
        return (w - lr * d,)
    momentum = w.dtype.type(node.number("momentum"))
    moved = momentum * moment[0] + d
    return w - lr * (d + momentum * moved if node.flag("nesterov") else moved), moved


@reference("adam")
def _adam(node: Node, w: Array, g: Array, c: Array, mean: Array, square: Array, *top: Array
          ) -> tuple[Array, ...]:
    kind = w.dtype.type
    if node.flag("decoupled"):
        d, w = (-g if node.flag("maximize") else g), w * c[2]
    else:
        d = _direction(node, w, g)
    beta2 = node.number("beta2")
    mean = _mean(mean, d, node.number("beta1"))
    square = kind(beta2) * square + kind(1 - beta2) * d * d
    top = tuple(np.maximum(t, square) for t in top)
    below = np.sqrt(top[0] if top else square) * c[1] + kind(node.number("eps"))
    return w - c[0] * (mean / below), mean, square, *top


@reference("rmsprop")
def _rmsprop(node: Node, w: Array, g: Array, c: Array, square: Array, *rest: Array
             ) -> tuple[Array, ...]:
    kind, alpha = w.dtype.type, node.number("alpha")
    d = _direction(node, w, g)
    square = kind(alpha) * square + kind(1 - alpha) * d * d
    made, kept, below = [square], list(rest), square
    if node.flag("centered"):
        made.append(_mean(kept.pop(0), d, alpha))
        below = square - made[-1] * made[-1]
    with np.errstate(invalid="ignore"):
        moved = d / (np.sqrt(below) + kind(node.number("eps")))
    if kept:
        moved = kind(node.number("momentum")) * kept[0] + moved
        made.append(moved)
    return w - c[0] * moved, *made


@reference("adagrad")
def _adagrad(node: Node, w: Array, g: Array, c: Array, total: Array) -> tuple[Array, ...]:
    d = _direction(node, w, g)
    total = total + d * d
    return w - c[0] * (d / (np.sqrt(total) + w.dtype.type(node.number("eps")))), total


@reference("clear")
def _clear(node: Node, old: Array) -> Array:
    return np.zeros_like(old)
