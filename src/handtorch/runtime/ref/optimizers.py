"""Optimizer updates."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("sgd")
def _sgd(node: Node, w: Array, g: Array, lr: Array, *moment: Array) -> tuple[Array, ...]:
    d = (-g if node.flag("maximize") else g) + w.dtype.type(node.number("decay")) * w
    if not moment:
        return (w - lr * d,)
    momentum = w.dtype.type(node.number("momentum"))
    moved = momentum * moment[0] + d
    return w - lr * (d + momentum * moved if node.flag("nesterov") else moved), moved
