"""Optimizer updates: functional here, in place on the device.

Each takes (parameter, gradient, coefficients, moments...) and gives the new parameter and moments.
The coefficients are the learning rate f32[1] for `sgd`, what `tick` gives for the others."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, like, no_flops, per_element

COEFFICIENTS = 3


def _updated(node: Node) -> Types:
    kept = (node.inputs[0], *node.inputs[3:])
    return tuple((v.shape, v.dtype) for v in kept)


def _ticked(node: Node) -> Types:
    return (node.inputs[0].shape, "f32"), ((COEFFICIENTS,), "f32")


_IN_PLACE = ((0, 0), (1, 3), (2, 4), (3, 5))
OPS = (
    # (steps so far, learning rate) -> (steps + 1, [step size, 1 / sqrt(bias 2), weight decay]):
    # what all parameters of a group share, so that no element computes a power.
    Op("tick", _ticked, lambda _: 16, in_place=((0, 0),)),
    Op("sgd", _updated, per_element(4), in_place=_IN_PLACE),              # moments: [momentum]
    # Moments: mean, mean of squares[, largest mean of squares]. `decoupled` is AdamW.
    Op("adam", _updated, per_element(12), in_place=_IN_PLACE),
    # Moments: mean of squares[, mean if `centered`][, momentum].
    Op("rmsprop", _updated, per_element(9), in_place=_IN_PLACE),
    Op("adagrad", _updated, per_element(7), in_place=_IN_PLACE),          # moments: sum of squares
    # (old) -> zeros in its place: an accumulator after the update that has read it.
    Op("clear", like(0), no_flops, in_place=((0, 0),)),
)
