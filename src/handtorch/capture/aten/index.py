"""Indexing, gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from handtorch.capture.aten.move import (
    expanded,
    fill_number,
    filled,
    put_box,
    reshaped,
    sliced,
    transposed,
)
from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Shape, Value

KEEP: tuple[str, ...] = ("embedding", "embedding_dense_backward")


@aten("embedding.default")
def _embedding(b: Builder, table: Value, index: Value, padding: int = -1, by_freq: bool = False,
               sparse: bool = False) -> Value:
    return b.one("take", (table, index), axis=0, wrap=False)


@aten("embedding_dense_backward.default")
def _embedding_grad(b: Builder, g: Value, index: Value, rows: int, padding: int, by_freq: bool
                    ) -> Value:
    if by_freq:
        raise b.refuse("embedding with scale_grad_by_freq=True", "not known",
                       "scale_grad_by_freq=False")
    return b.one("put", (index, g), shape=(rows, *g.shape[len(index.shape):]), axis=0, add=True,
                 wrap=False, skip=padding)


@aten("index_select.default")
def _index_select(b: Builder, x: Value, axis: int, index: Value) -> Value:
    if not x.shape:
        return x
    flat = reshaped(b, index, (index.size,))
    return b.one("take", (x, flat), axis=axis % len(x.shape), wrap=False)


class _Place:
    """Where several index tensors point: one axis of x, its rows named by one index.

    Neighbouring axes are joined in place. Others come first, as torch has it: x[i, :, j]."""

    def __init__(self, b: Builder, x: Shape, indices: Sequence[Value | None]) -> None:
        axes = [i for i, v in enumerate(indices) if v is not None]
        self.order = list(range(len(x)))
        if axes != list(range(axes[0], axes[0] + len(axes))):
            self.order = axes + [i for i in self.order if i not in axes]
        self.axis = self.order.index(axes[0])
        turned = tuple(x[i] for i in self.order)
        self.turned = turned
        self.joined = (*turned[:self.axis], prod(x[i] for i in axes),
                       *turned[self.axis + len(axes):])
        picks = [v for v in indices if v is not None]
        self.wrap = len(picks) == 1
        self.index = picks[0] if self.wrap else _row_numbers(b, picks, [x[i] for i in axes])

    def into(self, b: Builder, x: Value) -> Value:
        return reshaped(b, transposed(b, x, self.order), self.joined)

    def back(self, b: Builder, y: Value) -> Value:
        back = [self.order.index(i) for i in range(len(self.order))]
        return transposed(b, reshaped(b, y, self.turned), back)


def _row_numbers(b: Builder, picks: Sequence[Value], sizes: Sequence[int]) -> Value:
    """The row of the joined axes; -1 where one of the indices is outside its own."""
    rows: Value | None = None
    known: Value | None = None
    for pick, size in zip(picks, sizes, strict=True):
        zero, n = b.constant(0, "i32"), b.constant(size, "i32")
        row = b.one("where", (b.one("lt", (pick, zero)), b.one("add", (pick, n)), pick))
        inside = b.one("logical_and", (b.one("ge", (row, zero)), b.one("lt", (row, n))))
        known = inside if known is None else b.one("logical_and", (known, inside))
        rows = row if rows is None else b.one("add", (b.one("mul", (rows, n)), row))
    assert rows is not None and known is not None
    return b.one("where", (known, rows, b.constant(-1, "i32")))


def _check(b: Builder, op: str, indices: Sequence[Value | None]) -> None:
    if any(v is not None and v.dtype == "bool" for v in indices):
        raise b.refuse(f"{op} with a mask as index", "the size of the result depends on data",
                       "torch.where(mask, x, other)")


@aten("index.Tensor")
def _index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    _check(b, "indexing", indices)
    place = _Place(b, x.shape, indices)
    return b.one("take", (place.into(b, x), place.index), axis=place.axis, wrap=place.wrap)


@aten("index_put.default")
def _index_put(b: Builder, x: Value, indices: Sequence[Value | None], new: Value,
               accumulate: bool = False) -> Value:
    first = indices[0]
    if len(indices) == 1 and first is not None and first.dtype == "bool":
        return _masked_put(b, x, first, new, accumulate)
    _check(b, "writing", indices)
    new = b.cast(new, x.dtype)
    if accumulate and x.dtype == "bool":
        raise b.refuse("adding into a tensor of bool by index", "bool has no sum")
    place = _Place(b, x.shape, indices)
    rest = place.joined[place.axis + 1:]
    src = expanded(b, new, (*place.joined[:place.axis], *place.index.shape, *rest))
    base = () if fill_number(b, x) == 0 else (place.into(b, x),)
    if not src.size:
        return x
    y = b.one("put", (place.index, src, *base), shape=place.joined, axis=place.axis,
              add=accumulate, wrap=place.wrap, skip=-1)
    return place.back(b, y)


def _masked_put(b: Builder, x: Value, mask: Value, new: Value, accumulate: bool) -> Value:
    """x[mask] = number."""
    if new.size != 1 or accumulate:
        raise b.refuse("writing several values with a mask as index",
                       "which value goes where depends on data", "torch.where(mask, new, x)")
    wide = reshaped(b, mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))
    number = reshaped(b, b.cast(new, x.dtype), ())
    return b.one("where", (wide, number, x))


@aten("gather.default")
def _gather(b: Builder, x: Value, axis: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """Where the index is shorter than x on another axis, the rest of x plays no part."""
    if not x.shape:
        return reshaped(b, _gather(b, reshaped(b, x, (1,)), 0, reshaped(b, index, (index.size,))),
                        index.shape)
    axis %= len(x.shape)
    for other, size in enumerate(index.shape):
        if other != axis:
            x = sliced(b, x, other, 0, size)
    return b.one("gather", (x, index), axis=axis)


@aten("scatter.src", "scatter_add.default")
def _scatter(b: Builder, x: Value, axis: int, index: Value, src: Value, *, op: str) -> Value:
    if not x.shape:
        return reshaped(b, _scatter(b, reshaped(b, x, (1,)), 0, reshaped(b, index, (1,)),
                                    reshaped(b, src, (1,)), op=op), ())
    if not index.size:
        return x
    axis, add = axis % len(x.shape), op == "scatter_add"
    if add and x.dtype == "bool":
        raise b.refuse("aten.scatter_add of bool", "bool has no sum")
    for other, size in enumerate(index.shape):
        src = sliced(b, src, other, 0, size)
    shape = tuple(d if i == axis else index.shape[i] for i, d in enumerate(x.shape))
    inside = x
    if fill_number(b, x) is None:
        for other, size in enumerate(shape):
            inside = sliced(b, inside, other, 0, size)
    elif shape != x.shape:
        inside = filled(b, shape, fill_number(b, x) or 0, x.dtype)
    base = () if fill_number(b, inside) == 0 else (inside,)
    y = b.one("scatter", (index, src, *base), shape=shape, axis=axis, add=add)
    rank = len(shape)
    return put_box(b, x, y, [0] * rank, [1] * rank)


@aten("scatter.value")
def _scatter_value(b: Builder, x: Value, axis: int, index: Value, number: Any) -> Value:
    return _scatter(b, x, axis, index, filled(b, index.shape, number, x.dtype), op="scatter")
