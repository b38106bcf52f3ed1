"""Matrix products."""

from __future__ import annotations

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("matmul")
def _matmul(node: Node, a: Array, b: Array, *extra: Array) -> Array:
    y = (a.T if node.flag("ta") else a) @ (b.T if node.flag("tb") else b)
    rest = list(extra)
    for word in node.words("epilogue"):
        if word == "bias":
            y = y + rest.pop(0)
        elif word == "relu":
            y = np.maximum(y, 0)
        else:
            y = np.where(rest.pop(0) > 0, y, 0)
    return np.asarray(y)


@reference("bmm")
def _bmm(node: Node, a: Array, b: Array) -> Array:
    left = a.swapaxes(1, 2) if node.flag("ta") else a
    return np.asarray(left @ (b.swapaxes(1, 2) if node.flag("tb") else b))
