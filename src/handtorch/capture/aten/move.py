"""Views, copies and constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import torch

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Shape, Value

# What core ATen takes apart into masks and index arithmetic, and we can copy.
KEEP: tuple[str, ...] = ("t", "slice_backward", "select_backward", "select_scatter", "roll",
                         "diagonal_backward", "detach")


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    return x if x.shape == tuple(shape) else b.one("reshape", (x,), shape=tuple(shape))


def expanded(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    return x if x.shape == tuple(shape) else b.one("expand", (x,), shape=tuple(shape))


def transposed(b: Builder, x: Value, order: Sequence[int]) -> Value:
    if tuple(order) == tuple(range(len(x.shape))):
        return x
    return b.one("transpose", (x,), order=tuple(order))


def sliced(b: Builder, x: Value, axis: int, start: int, count: int, step: int = 1) -> Value:
    """`count` elements along one axis, everything of the others."""
    if (start, count, step) == (0, x.shape[axis], 1):
        return x
    shape, starts, steps = list(x.shape), [0] * len(x.shape), [1] * len(x.shape)
    shape[axis], starts[axis], steps[axis] = count, start if count else 0, step
    return b.one("slice", (x,), starts=tuple(starts), steps=tuple(steps), shape=tuple(shape))


def filled(b: Builder, shape: Sequence[int], number: float, dtype: str) -> Value:
    return b.one("fill", (), shape=tuple(shape), number=float(number), dtype=dtype)


def fill_number(b: Builder, x: Value) -> float | None:
    """The number that `x` is everywhere, if it is a constant."""
    for node in reversed(b.nodes):
        if x in node.outputs:
            return node.number("number") if node.op == "fill" else None
    return None


@aten("t.default")
def _t(b: Builder, x: Value) -> Value:
    return transposed(b, x, (1, 0)) if len(x.shape) == 2 else x


@aten("permute.default")
def _permute(b: Builder, x: Value, order: Sequence[int]) -> Value:
    return transposed(b, x, [d % len(x.shape) for d in order])


@aten("view.default", "reshape.default", "_unsafe_view.default")
def _view(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    known = prod(d for d in shape if d != -1)
    return reshaped(b, x, [x.size // known if d == -1 else d for d in shape])


@aten("unsqueeze.default")
def _unsqueeze(b: Builder, x: Value, axis: int) -> Value:
    at = axis % (len(x.shape) + 1)
    return reshaped(b, x, (*x.shape[:at], 1, *x.shape[at:]))


@aten("squeeze.default", "squeeze.dim", "squeeze.dims")
def _squeeze(b: Builder, x: Value, axes: int | Sequence[int] | None = None) -> Value:
    given = [axes] if isinstance(axes, int) else range(len(x.shape)) if axes is None else axes
    drop = {a % len(x.shape) for a in given} if x.shape else set()
    return reshaped(b, x, [d for i, d in enumerate(x.shape) if d != 1 or i not in drop])


@aten("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default")
def _same(b: Builder, x: Value, **_: Any) -> Value:
    return x


@aten("copy.default")
def _copy(b: Builder, old: Value, new: Value, non_blocking: bool = False) -> Value:
    """`old.copy_(new)`: the contents of the new in the shape and type of the old."""
    return expanded(b, b.cast(new, old.dtype), old.shape)


@aten("expand.default")
def _expand(b: Builder, x: Value, shape: Sequence[int], *, implicit: bool = False) -> Value:
    own = (1,) * (len(shape) - len(x.shape)) + x.shape
    return expanded(b, x, [d if n == -1 else n for n, d in zip(shape, own, strict=True)])


@aten("repeat.default")
def _repeat(b: Builder, x: Value, times: Sequence[int]) -> Value:
    """[t, d] for each axis: the first is stretched."""
    own = (1,) * (len(times) - len(x.shape)) + x.shape
    apart = reshaped(b, x, [n for d in own for n in (1, d)])
    wide = expanded(b, apart, [n for t, d in zip(times, own, strict=True) for n in (t, d)])
    return reshaped(b, wide, [t * d for t, d in zip(times, own, strict=True)])


def _range(size: int, start: int | None, end: int | None, step: int) -> tuple[int, int]:
    """Python's reading of [start:end:step]: first element and count."""
    first, last, _ = slice(start, end, step).indices(size)
    return first, max(0, ceil((last - first) / step))


@aten("slice.Tensor")
def _slice(b: Builder, x: Value, axis: int = 0, start: int | None = None, end: int | None = None,
           step: int = 1) -> Value:
    axis %= len(x.shape)
    first, count = _range(x.shape[axis], start, end, step)
    return sliced(b, x, axis, first, count, step)


@aten("select.int")
def _select(b: Builder, x: Value, axis: int, index: int) -> Value:
    axis %= len(x.shape)
    one = sliced(b, x, axis, index % x.shape[axis], 1)
    return reshaped(b, one, (*x.shape[:axis], *x.shape[axis + 1:]))


@aten("split_with_sizes.default", "split_with_sizes_copy.default")
def _split_with_sizes(b: Builder, x: Value, sizes: Sequence[int], axis: int = 0) -> Result:
    axis %= len(x.shape)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(sliced(b, x, axis, s, n) for s, n in zip(starts, sizes, strict=True))


@aten("split.Tensor")
def _split(b: Builder, x: Value, size: int, axis: int = 0) -> Result:
    whole = x.shape[axis]
    starts = range(0, whole, size) if whole else [0]
    return tuple(sliced(b, x, axis % len(x.shape), s, min(size, whole - s)) for s in starts)


@aten("unbind.int")
def _unbind(b: Builder, x: Value, axis: int = 0) -> Result:
    return tuple(_select(b, x, axis, i) for i in range(x.shape[axis]))


@aten("flip.default")
def _flip(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    turned = {a % len(x.shape) for a in axes if x.shape}
    if not turned or not x.size:
        return x
    starts = tuple(d - 1 if i in turned else 0 for i, d in enumerate(x.shape))
    steps = tuple(-1 if i in turned else 1 for i in range(len(x.shape)))
    return b.one("slice", (x,), starts=starts, steps=steps, shape=x.shape)


@aten("roll.default")
def _roll(b: Builder, x: Value, shifts: Sequence[int], axes: Sequence[int] = ()) -> Value:
    flat = x if axes else reshaped(b, x, (x.size,))
    for shift, given in zip(shifts, axes or (0,), strict=True):
        axis = given % len(flat.shape)
        size = flat.shape[axis]
        cut = -shift % size if size else 0
        if cut:
            parts = (sliced(b, flat, axis, cut, size - cut), sliced(b, flat, axis, 0, cut))
            flat = b.one("cat", parts, axis=axis)
    return reshaped(b, flat, x.shape)


@aten("cat.default")
def _cat(b: Builder, parts: Sequence[Value], axis: int = 0) -> Value:
    """What is empty counts for nothing; among tensors of higher rank that may be a vector."""
    rank = max(len(p.shape) for p in parts)
    used = [p for p in parts if p.size] or [p for p in parts if len(p.shape) == rank][:1]
    kind = max((p.dtype for p in parts), key=("bool", "i32", "u32", "f32").index)
    cast = [b.cast(p, kind) for p in used]
    return cast[0] if len(cast) == 1 else b.one("cat", cast, axis=axis % rank)


@aten("constant_pad_nd.default")
def _pad(b: Builder, x: Value, pads: Sequence[int], number: float = 0) -> Value:
    """Pairs from the last axis to the first; a negative one cuts."""
    rank = len(x.shape)
    sides = [(0, 0)] * (rank - len(pads) // 2)
    sides += reversed(list(zip(pads[::2], pads[1::2], strict=True)))
    for axis, (low, high) in enumerate(sides):
        x = sliced(b, x, axis, max(-low, 0), x.shape[axis] + min(low, 0) + min(high, 0))
    starts = [max(low, 0) for low, _ in sides]
    shape = [s + d + max(h, 0) for s, d, (_, h) in zip(starts, x.shape, sides, strict=True)]
    return _placed(b, x, shape, starts, [1] * rank, number)


def _placed(b: Builder, x: Value, shape: Sequence[int], starts: Sequence[int],
            steps: Sequence[int], number: float = 0) -> Value:
    if x.shape == tuple(shape):
        return x
    if not x.size:
        return filled(b, shape, number, x.dtype)
    return b.one("pad", (x,), shape=tuple(shape), starts=tuple(starts), steps=tuple(steps),
                 number=float(number))


def put_box(b: Builder, base: Value, x: Value, starts: Sequence[int], steps: Sequence[int]
            ) -> Value:
    """`base` with `x` written over a box of it; cheaper if the base is a constant."""
    x = b.cast(x, base.dtype)
    number = fill_number(b, base)
    if number is not None or x.shape == base.shape:
        return _placed(b, x, base.shape, starts, steps, number or 0.0)
    if not x.size:
        return base
    return b.one("put_slice", (base, x), starts=tuple(starts), steps=tuple(steps))


def _along(shape: Shape, axis: int, start: int, step: int) -> tuple[list[int], list[int]]:
    starts, steps = [0] * len(shape), [1] * len(shape)
    starts[axis], steps[axis] = start, step
    return starts, steps


@aten("slice_scatter.default")
def _slice_scatter(b: Builder, base: Value, x: Value, axis: int = 0, start: int | None = None,
                   end: int | None = None, step: int = 1) -> Value:
    axis %= len(base.shape)
    first, count = _range(base.shape[axis], start, end, step)
    part = expanded(b, x, (*base.shape[:axis], count, *base.shape[axis + 1:]))
    return put_box(b, base, part, *_along(base.shape, axis, first, step))


@aten("select_scatter.default")
def _select_scatter(b: Builder, base: Value, x: Value, axis: int, index: int) -> Value:
    axis %= len(base.shape)
    part = reshaped(b, x, (*base.shape[:axis], 1, *base.shape[axis + 1:]))
    return put_box(b, base, part, *_along(base.shape, axis, index % base.shape[axis], 1))


@aten("slice_backward.default")
def _slice_backward(b: Builder, g: Value, shape: Sequence[int], axis: int, start: int | None,
                    end: int | None, step: int) -> Value:
    axis %= len(shape)
    first, _ = _range(shape[axis], start, end, step)
    return _placed(b, g, shape, *_along(tuple(shape), axis, first, step))


@aten("select_backward.default")
def _select_backward(b: Builder, g: Value, shape: Sequence[int], axis: int, index: int) -> Value:
    axis %= len(shape)
    part = reshaped(b, g, (*shape[:axis], 1, *shape[axis + 1:]))
    return _placed(b, part, shape, *_along(tuple(shape), axis, index % shape[axis], 1))


def _diagonal_box(shape: Shape, offset: int) -> tuple[int, int, int]:
    """(first, step, count) of a diagonal of the last two axes, flattened."""
    rows, columns = shape[-2:]
    count = min(rows + min(offset, 0), columns - max(offset, 0))
    return max(offset, 0) - min(offset, 0) * columns, columns + 1, max(count, 0)


def _to_end(rank: int, first: int, second: int) -> list[int]:
    pair = (first % rank, second % rank)
    return [i for i in range(rank) if i not in pair] + list(pair)


@aten("diagonal.default")
def _diagonal(b: Builder, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    x = transposed(b, x, _to_end(len(x.shape), first, second))
    start, step, count = _diagonal_box(x.shape, offset)
    flat = reshaped(b, x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return sliced(b, flat, len(flat.shape) - 1, start, count, step)


@aten("diagonal_scatter.default")
def _diagonal_scatter(b: Builder, base: Value, x: Value, offset: int = 0, first: int = 0,
                      second: int = 1) -> Value:
    order = _to_end(len(base.shape), first, second)
    number = fill_number(b, base)
    shape = tuple(base.shape[i] for i in order)
    flat_shape = (*shape[:-2], shape[-2] * shape[-1])
    flat = (reshaped(b, transposed(b, base, order), flat_shape) if number is None
            else filled(b, flat_shape, number, base.dtype))
    start, step, _ = _diagonal_box(shape, offset)
    out = put_box(b, flat, x, *_along(flat_shape, len(flat_shape) - 1, start, step))
    return transposed(b, reshaped(b, out, shape), [order.index(i) for i in range(len(order))])


@aten("diagonal_backward.default")
def _diagonal_backward(b: Builder, g: Value, shape: Sequence[int], offset: int, first: int,
                       second: int) -> Value:
    return _diagonal_scatter(b, filled(b, shape, 0, g.dtype), g, offset, first, second)


def _kind(b: Builder, dtype: Any, otherwise: str) -> str:
    return otherwise if dtype is None else b.dtype(dtype)


@aten("full_like.default")
def _full_like(b: Builder, x: Value, number: float, *, dtype: Any = None, **_: Any) -> Value:
    return filled(b, x.shape, number, _kind(b, dtype, x.dtype))


@aten("full.default")
def _full(b: Builder, shape: Sequence[int], number: float, *, dtype: Any = None, **_: Any
          ) -> Value:
    return filled(b, shape, number, _kind(b, dtype, b.number_type(number)))


@aten("scalar_tensor.default")
def _scalar_tensor(b: Builder, number: float, *, dtype: Any = None, **_: Any) -> Value:
    return b.constant(number, _kind(b, dtype, b.number_type(number)))


@aten("empty.memory_format", "empty_permuted.default", "empty_strided.default")
def _empty(b: Builder, shape: Sequence[int], *_: Any, dtype: Any = None, **__: Any) -> Value:
    """Zeros: contents nobody may rely on are at least the same in every run."""
    return filled(b, shape, 0, _kind(b, dtype, "f32"))


@aten("new_empty_strided.default", "new_empty.default")
def _new_empty(b: Builder, x: Value, shape: Sequence[int], *_: Any, dtype: Any = None, **__: Any
               ) -> Value:
    return filled(b, shape, 0, _kind(b, dtype, x.dtype))


@aten("arange.start_step")
def _arange(b: Builder, start: float, end: float, step: float = 1, *, dtype: Any = None, **_: Any
            ) -> Value:
    """Whole numbers are counted; others are a count scaled and moved."""
    count = max(0, ceil((end - start) / step))
    whole = all(float(n).is_integer() for n in (start, step))
    decimal = any(isinstance(n, float) for n in (start, end, step))
    is_float = decimal if dtype is None else dtype.is_floating_point
    if not is_float and dtype not in (None, torch.uint8, torch.int16):      # stand-ins for i32
        b.dtype(dtype)
    first, stride = (int(start), int(step)) if whole else (0, 1)
    made = next((n.outputs[0] for n in b.nodes if n.op == "arange" and n.attrs == {
        "start": first, "step": stride, "count": count}), None)
    numbers = made or b.one("arange", (), start=first, step=stride, count=count)
    if not is_float:
        return numbers
    counted = b.cast(numbers, "f32")
    if whole:
        return counted
    scaled = b.one("mul", (counted, b.constant(step, "f32")))
    return b.one("add", (scaled, b.constant(start, "f32")))
