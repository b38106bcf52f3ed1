"""Optimizer updates: functional here, in place on the device."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, per_element


def _sgd_result(node: Node) -> Types:
    """(parameter, gradient, learning rate[, momentum]) -> new parameter[, new momentum]."""
    kept = (node.inputs[0], *node.inputs[3:])
    return tuple((v.shape, v.dtype) for v in kept)


OPS = (Op("sgd", _sgd_result, per_element(4), in_place=((0, 0), (1, 3))),)
