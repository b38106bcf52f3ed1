"""Ops without arithmetic: views, copies, constants.

A box is what `starts`, `steps` and a shape describe: element i of axis a is `starts[a] + i *
steps[a]` of the larger tensor. Steps may be negative where it is read."""

from __future__ import annotations

from math import prod

from handtorch.graph.node import Node, Shape
from handtorch.graph.ops.op import Op, Types, broadcast, like, no_flops


def _same_size(node: Node) -> Types:
    shape = node.numbers("shape")
    assert prod(shape) == node.inputs[0].size, f"reshape {node.inputs[0]} to {shape}"
    return ((shape, node.inputs[0].dtype),)


def _transposed(node: Node) -> Types:
    (x,) = node.inputs
    return ((tuple(x.shape[i] for i in node.numbers("order")), x.dtype),)


def _filled(node: Node) -> Types:
    return ((node.numbers("shape"), str(node.attrs.get("dtype", "f32"))),)


def _expanded(node: Node) -> Types:
    (x,), shape = node.inputs, node.numbers("shape")
    assert broadcast([x.shape, shape]) == shape, f"expand {x} to {shape}"
    return ((shape, x.dtype),)


def _sliced(node: Node) -> Types:
    (x,), shape = node.inputs, node.numbers("shape")
    _check_box(node, x.shape, shape)
    return ((shape, x.dtype),)


def _padded(node: Node) -> Types:
    (x,), shape = node.inputs, node.numbers("shape")
    _check_box(node, shape, x.shape)
    return ((shape, x.dtype),)


def _replaced(node: Node) -> Types:
    base, part = node.inputs
    _check_box(node, base.shape, part.shape)
    assert base.dtype == part.dtype, f"{node.op} of {part} into {base}"
    return ((base.shape, base.dtype),)


def _check_box(node: Node, whole: Shape, part: Shape) -> None:
    """Every element of the box lies in the whole, and none twice."""
    box = zip(whole, part, node.numbers("starts"), node.numbers("steps"), strict=True)
    for axis, (size, count, start, step) in enumerate(box):
        last = start + (count - 1) * step
        inside = not count or (0 <= start < size and 0 <= last < size and step)
        assert inside, f"{node.op}: {start} to {last} step {step} of {size}, axis {axis}"


def _joined(node: Node) -> Types:
    first, axis = node.inputs[0], int(node.number("axis"))
    shapes = [v.shape for v in node.inputs]
    alike = {(s[:axis], s[axis + 1:], v.dtype) for s, v in zip(shapes, node.inputs, strict=True)}
    assert len(alike) == 1, f"cat of {', '.join(map(str, node.inputs))}"
    total = sum(s[axis] for s in shapes)
    return (((*first.shape[:axis], total, *first.shape[axis + 1:]), first.dtype),)


def _counted(node: Node) -> Types:
    return (((int(node.number("count")),), "i32"),)


OPS = (
    Op("fill", _filled, no_flops),
    Op("arange", _counted, no_flops),       # start, start + step, ... i32, `count` numbers
    Op("reshape", _same_size, no_flops),
    Op("transpose", _transposed, no_flops),
    Op("expand", _expanded, no_flops),      # NumPy's broadcast to `shape`
    Op("slice", _sliced, no_flops),         # the box of x
    Op("pad", _padded, no_flops),           # x as the box of a tensor that is `number` elsewhere
    Op("put_slice", _replaced, no_flops),   # (base, x) -> base with x as its box
    Op("cat", _joined, no_flops),           # any number of inputs, joined along `axis`
    # (old, new) -> new, in the place of old: how a new state gets where it belongs.
    Op("assign", like(0), no_flops, in_place=((0, 0),)),
)
