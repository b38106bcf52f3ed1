"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.optimizers import new_weight
from handtorch.runtime.ref.registry import reference


def _product(node: Node, a: Array, b: Array) -> Array:
    return np.asarray((a.T if node.flag("ta") else a) @ (b.T if node.flag("tb") else b))


@reference("matmul")
def _matmul(node: Node, a: Array, b: Array, *extra: Array) -> Array:
    return finished(node, _product(node, a, b), extra)


def finished(node: Node, y: Array, extra: Sequence[Array]) -> Array:
    """`y` after all that the node's epilogue does to it, with these inputs."""
    rest = list(extra)
    for word in node.words("epilogue"):
        if word in ("bias", "add"):
            y = y + rest.pop(0)
        elif word == "relu":
            y = np.maximum(y, 0)
        else:
            y = np.where(rest.pop(0) > 0, y, 0)
    return np.asarray(y)


@reference("matmul_sgd")
def _matmul_sgd(node: Node, w: Array, a: Array, b: Array, lr: Array, *moment: Array
                ) -> tuple[Array, ...]:
    return new_weight(node, w, _product(node, a, b), lr, *moment)


@reference("weights_grad")
def _weights_grad(node: Node, d: Array, *xs: Array) -> tuple[Array, ...]:
    return *(np.asarray(d.T @ x) for x in xs), *([d.sum(0)] if node.flag("sums") else [])


@reference("bmm")
def _bmm(node: Node, a: Array, b: Array) -> Array:
    left = a.swapaxes(1, 2) if node.flag("ta") else a
    return np.asarray(left @ (b.swapaxes(1, 2) if node.flag("tb") else b))
