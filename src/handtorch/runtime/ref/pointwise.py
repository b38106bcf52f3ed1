"""Point-wise ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference

_POINTWISE: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "relu": lambda x: np.maximum(x, 0),
    "relu_grad": lambda g, y: np.where(y > 0, g, np.zeros_like(g)),
    "copy": np.array,
}


@reference(*_POINTWISE)
def _pointwise(node: Node, *inputs: Array) -> Array:
    return np.asarray(_POINTWISE[node.op](*inputs))


@reference("scale")
def _scale(node: Node, x: Array) -> Array:
    return np.asarray(x * x.dtype.type(node.number("factor")))
