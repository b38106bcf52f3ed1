"""Reductions, scans and softmax.

`of` names what is reduced in place of x itself: "abs" or "square". Floats may be scaled (`scale`),
which makes a mean of a sum."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from handtorch.graph.node import Node
from handtorch.graph.ops.op import Op, Types, like, per_element


def reduced_shape(node: Node) -> tuple[int, ...]:
    """The input's shape with `axes` dropped, or 1 with `keepdim`."""
    shape, axes = node.inputs[0].shape, node.numbers("axes")
    if node.flag("keepdim"):
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def axis_sizes(node: Node, index: int = 0) -> tuple[int, int, int]:
    """An input seen as [outer, along `axis`, inner]; without `axis` the last one is meant."""
    shape = node.inputs[index].shape
    if not shape:
        return 1, 1, 1
    axis = int(node.number("axis", -1)) % len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])


def _reduced(node: Node) -> Types:
    return ((reduced_shape(node), node.inputs[0].dtype),)


def _value_and_index(node: Node) -> Types:
    shape = reduced_shape(node)
    return (shape, node.inputs[0].dtype), (shape, "i32")


def _like_first(times: int) -> tuple[Callable[[Node], Types], Callable[[Node], int]]:
    return like(0), per_element(times)


OPS = (
    Op("sum", _reduced, per_element(1)),
    Op("prod", _reduced, per_element(1)),
    Op("amax", _reduced, per_element(1)),
    Op("amin", _reduced, per_element(1)),
    Op("any", _reduced, per_element(1)),                    # bool -> bool
    # x -> (extreme, its first index): over the one axis of `axes`.
    Op("max_index", _value_and_index, per_element(1)),
    Op("min_index", _value_and_index, per_element(1)),
    Op("cumsum", *_like_first(1)),                          # over `axis`
    Op("cumprod", *_like_first(1)),
    Op("softmax", *_like_first(4)),                         # over `axis`; the last if absent
    Op("log_softmax", *_like_first(4)),
    Op("softmax_grad", *_like_first(4)),                    # (gradient, softmax)
    Op("log_softmax_grad", *_like_first(3)),                # (gradient, log-softmax)
)
