"""Ops without arithmetic: views, strided copies, constants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from handtorch.graph.node import Node, Shape, Value
from handtorch.graph.step import Alias, Lowered, Step
from handtorch.kernels.move import (
    MOST_AXES,
    Axis,
    arange_step,
    collapsed,
    fill_step,
    move_step,
    strides_of,
)
from handtorch.lower.registry import Target, cannot_lower, lowers

NOTHING = Lowered(())


@lowers("reshape")
def reshape(node: Node, target: Target) -> Lowered:
    """The same bytes under another shape: no launch."""
    return Lowered((), (Alias(node.outputs[0], node.inputs[0]),))


@lowers("fill")
def fill(node: Node, target: Target) -> Lowered:
    (y,) = node.outputs
    return Lowered((fill_step(y, node.number("number"), node=target.node),)) if y.size else NOTHING


@lowers("arange")
def arange(node: Node, target: Target) -> Lowered:
    (y,) = node.outputs
    start, step = int(node.number("start")), int(node.number("step"))
    return Lowered((arange_step(y, start, step, node=target.node),)) if y.size else NOTHING


def _move(node: Node, target: Target, x: Value, y: Value, axes: Sequence[Axis], *,
          x_from: int = 0, y_from: int = 0) -> tuple[Step, ...]:
    """One launch, none where there is nothing to move."""
    if not all(a.count for a in axes):
        return ()
    if (rank := len(collapsed(axes))) > MOST_AXES:
        raise cannot_lower(node, f"{rank} axes that do not join, at most {MOST_AXES} are known",
                           "fewer axes, or two steps")
    return (move_step(x, y, axes, x_from=x_from, y_from=y_from, node=target.node,
                      spec=target.spec),)


def whole(x: Value, y: Value, node: int) -> tuple[Step, ...]:
    """A plain copy of all of `x`."""
    return (move_step(x, y, (Axis(x.size, 1, 1),), node=node),) if x.size else ()


@lowers("transpose")
def transpose(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    of_x = strides_of(x.shape)
    axes = [Axis(n, of_x[i], s) for n, i, s in
            zip(y.shape, node.numbers("order"), strides_of(y.shape), strict=True)]
    return Lowered(_move(node, target, x, y, axes))


@lowers("expand")
def expand(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    padded = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    axes = [Axis(n, 0 if d == 1 else a, b) for n, d, a, b in
            zip(y.shape, padded, strides_of(padded), strides_of(y.shape), strict=True)]
    return Lowered(_move(node, target, x, y, axes))


def _box(node: Node, larger: Shape) -> tuple[int, list[int]]:
    """First element and strides of the node's box in a tensor of shape `larger`."""
    own = strides_of(larger)
    first = sum(a * s for a, s in zip(node.numbers("starts"), own, strict=True))
    return first, [a * s for a, s in zip(node.numbers("steps"), own, strict=True)]


@lowers("slice")
def slice_(node: Node, target: Target) -> Lowered:
    (x,), (y,) = node.inputs, node.outputs
    first, steps = _box(node, x.shape)
    axes = [Axis(*a) for a in zip(y.shape, steps, strides_of(y.shape), strict=True)]
    return Lowered(_move(node, target, x, y, axes, x_from=first))


def _into_box(node: Node, target: Target, x: Value, y: Value) -> tuple[Step, ...]:
    first, steps = _box(node, y.shape)
    axes = [Axis(*a) for a in zip(x.shape, strides_of(x.shape), steps, strict=True)]
    return _move(node, target, x, y, axes, y_from=first)


@lowers("pad")
def pad(node: Node, target: Target) -> Lowered:
    """Fill, then copy: the box is written twice, which costs less than asking each element."""
    (x,), (y,) = node.inputs, node.outputs
    if not y.size:
        return NOTHING
    before = () if x.size == y.size else (fill_step(y, node.number("number"), node=target.node),)
    return Lowered((*before, *_into_box(node, target, x, y)))


@lowers("put_slice")
def put_slice(node: Node, target: Target) -> Lowered:
    (base, x), (y,) = node.inputs, node.outputs
    return Lowered((*whole(base, y, target.node), *_into_box(node, target, x, y)))


@lowers("cat")
def cat(node: Node, target: Target) -> Lowered:
    """One launch for each input that is not empty."""
    (y,), axis = node.outputs, int(node.number("axis"))
    to = strides_of(y.shape)
    starts = accumulate((x.shape[axis] for x in node.inputs), initial=0)
    steps: list[Step] = []
    for x, start in zip(node.inputs, starts, strict=False):
        axes = [Axis(*a) for a in zip(x.shape, strides_of(x.shape), to, strict=True)]
        steps += _move(node, target, x, y, axes, y_from=start * to[axis])
    return Lowered(tuple(steps))
