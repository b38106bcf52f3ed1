"""Views, copies, constants."""

from __future__ import annotations

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref.registry import reference


@reference("fill")
def _fill(node: Node) -> Array:
    kind = dtype(str(node.attrs.get("dtype", "f32"))).numpy
    return np.full(node.numbers("shape"), node.number("number"), kind)


@reference("reshape")
def _reshape(node: Node, x: Array) -> Array:
    return x.reshape(node.numbers("shape"))


@reference("transpose")
def _transpose(node: Node, x: Array) -> Array:
    return x.transpose(node.numbers("order"))


@reference("assign")
def _assign(node: Node, old: Array, new: Array) -> Array:
    return new
