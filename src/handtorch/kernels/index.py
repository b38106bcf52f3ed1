"""Indexing: rows or elements taken by an index, and put where an index says."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from handtorch.dtypes import dtype
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.move import LARGE_GROUP, MANY_ITEMS, SMALL_GROUP, fill_step
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

_KINDS = {"f32": 0, "i32": 1, "bool": 2}
# What an index outside reads, as bits.
_BAD_BITS = {"f32": 0x7FC00000, "i32": 0x80000000, "bool": 0}
# An item of `put` owns a kilobyte of a row, so that memory is read in runs; where that gives few
# items, parts of the rows give more.
STRIP, MOST_PARTS, ENOUGH_ITEMS = 256, 32, 64


def _items(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(int(sizes["ITEMS"]), group) * group,), (group,)


def _owners(_: Defines, sizes: Sizes) -> Geometry:
    """Strips of columns, parts of the rows, and what comes before the axis."""
    across, parts = (ceil_div(int(sizes[n]), int(sizes[s])) for n, s in (("B", "STRIP"),
                                                                         ("N", "PART")))
    return (across, parts, int(sizes["A"])), (1, 1, 1)


_BITS = {"BYTES": 4, "GROUP": SMALL_GROUP}
TAKE = Kernel("take", ("r", "r", "w"), _items,
              {"ITEMS": "uint", "CHUNKS": "uint", "J": "uint", "N": "int", "B": "uint",
               "BAD": "uint"}, {**_BITS, "V": 4, "WRAP": 0})
GATHER = Kernel("gather", ("r", "r", "w"), _items,
                {"ITEMS": "uint", "J": "uint", "N": "int", "B": "uint", "BAD": "uint"}, _BITS)
PUT = Kernel("put", ("r", "r", "rw"), _owners,
             {"J": "int", "N": "int", "B": "int", "STRIP": "int", "PART": "int", "SKIP": "int"},
             {"KIND": 0, "V": 4, "ADD": 1, "WRAP": 0})
SCATTER = Kernel("scatter", ("r", "r", "rw"), _items,
                 {"ITEMS": "uint", "J": "int", "N": "int", "B": "uint"},
                 {"KIND": 0, "ADD": 1, "GROUP": SMALL_GROUP})
KERNELS = (TAKE, GATHER, PUT, SCATTER)


def _group(items: int) -> int:
    return LARGE_GROUP if items >= MANY_ITEMS else SMALL_GROUP


def _width(columns: int) -> int:
    return 16 if columns >= 16 else 4 if columns >= 4 else 1


def around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(A, N, B): the axis with all before it and all after it joined."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])


def take_step(x: Value, index: Value, y: Value, axis: int, wrap: bool, *, node: int = 0) -> Step:
    a, n, b = around(x.shape, axis)
    width = _width(b)
    chunks = ceil_div(b, width)
    items = a * index.size * chunks
    return TAKE.step((x, index, y), {"ITEMS": items, "CHUNKS": chunks, "J": index.size, "N": n,
                                     "B": b, "BAD": _BAD_BITS[x.dtype]},
                     {"BYTES": dtype(x.dtype).size_bytes, "V": width, "WRAP": int(wrap),
                      "GROUP": _group(items)}, node=node)


def gather_step(x: Value, index: Value, y: Value, axis: int, *, node: int = 0) -> Step:
    _, n, b = around(x.shape, axis)
    sizes = {"ITEMS": y.size, "J": index.shape[axis], "N": n, "B": b, "BAD": _BAD_BITS[x.dtype]}
    return GATHER.step((x, index, y), sizes,
                       {"BYTES": dtype(x.dtype).size_bytes, "GROUP": _group(y.size)}, node=node)


def put_step(index: Value, src: Value, y: Value, axis: int, *, add: bool, wrap: bool,
             skip: int = -1, node: int = 0, flops: int = 0) -> Step:
    """`y` already holds what `src` is put into."""
    a, n, b = around(y.shape, axis)
    parts = min(n, MOST_PARTS, ceil_div(ENOUGH_ITEMS, a * ceil_div(b, STRIP)))
    sizes = {"J": index.size, "N": n, "B": b, "STRIP": STRIP, "PART": ceil_div(n, parts),
             "SKIP": skip, "A": a}
    return PUT.step((index, src, y), sizes,
                    {"KIND": _KINDS[y.dtype], "V": _width(b), "ADD": int(add),
                     "WRAP": int(wrap)}, node=node, flops=flops)


def scatter_step(index: Value, src: Value, y: Value, axis: int, *, add: bool, node: int = 0,
                 flops: int = 0) -> Step:
    """`y` already holds what `src` is put into."""
    a, n, b = around(y.shape, axis)
    sizes = {"ITEMS": a * b, "J": index.shape[axis], "N": n, "B": b}
    return SCATTER.step((index, src, y), sizes,
                        {"KIND": _KINDS[y.dtype], "ADD": int(add), "GROUP": _group(a * b)},
                        node=node, flops=flops)


def cases() -> Iterator[Case]:
    """Rows around the vector's width, indices twice, from the end and outside."""
    rng = np.random.default_rng(5)
    for columns in (1, 6, 21):
        x = rng.normal(size=(2, 7, columns)).astype("f4")
        for wrap, rows in ((False, [3, 0, 6, 3, 7, -1]), (True, [-1, 2, -7, 7, -8, 2])):
            yield _take_case(x, np.array(rows, "i4"), wrap)
            yield _put_case(x[:, :6].copy(), np.array(rows, "i4"), wrap, True)
        for add in (False, True):
            yield _put_case(x[:, :6].copy(), np.array([4, 4, 1, 5, 0, 4], "i4"), False, add)
        for wrap in (False, True):          # 16 at a time, and what is left
            yield _put_case(rng.normal(size=(2, 35, columns)).astype("f4"),
                            (rng.integers(0, 7, 35) - 7 * wrap).astype("i4"), wrap, True)
        index = rng.integers(0, 7, (2, 5, columns)).astype("i4")
        index[0, 2, 0] = 7
        yield from _element_cases(x, index)


def _take_case(x: Array, index: Array, wrap: bool) -> Case:
    n = x.shape[1]
    rows = np.where(wrap & (index < 0), index + n, index)
    known = (rows >= 0) & (rows < n)
    want = np.where(known[:, None], x[:, np.where(known, rows, 0)], np.nan)
    step = take_step(Value(0, x.shape), Value(1, index.shape, "i32"), Value(2, want.shape), 1, wrap)
    return Case(f"take {x.shape[2]} wrap {wrap}", (step,), {0: x, 1: index}, {2: want}, 1e-12)


def _put_case(src: Array, index: Array, wrap: bool, add: bool) -> Case:
    n = 7
    want = np.full((2, n, src.shape[2]), 0.5)
    for j, row in enumerate(np.where(wrap & (index < 0), index + n, index)):
        if 0 <= row < n and row != 2:
            want[:, row] = src[:, j] + (want[:, row] if add else 0.0)
    if ((index < (-n if wrap else 0)) | (index >= n)).any():
        want[:, 0] = np.nan
    y = Value(2, want.shape)
    step = put_step(Value(0, index.shape, "i32"), Value(1, src.shape), y, 1, add=add, wrap=wrap,
                    skip=2)
    name = f"put {src.shape[1:]} wrap {wrap} add {add}{' bad' * bool(np.isnan(want).any())}"
    return Case(name, (fill_step(y, 0.5), step), {0: index, 1: src}, {2: want}, 1e-6)


def _element_cases(x: Array, index: Array) -> Iterator[Case]:
    known = index < 7
    want = np.where(known, np.take_along_axis(x, np.where(known, index, 0), 1), np.nan)
    of = Value(1, index.shape, "i32")
    yield Case(f"gather {x.shape[2]}", (gather_step(Value(0, x.shape), of, Value(2, want.shape),
                                                    1),), {0: x, 1: index}, {2: want}, 1e-12)
    src = x[:, :5].copy()
    for add in (False, True):
        y = np.full(x.shape, 0.5)
        for a, j, b in np.ndindex(index.shape):
            n = index[a, j, b]
            if n < 7:
                y[a, n, b] = src[a, j, b] + (y[a, n, b] if add else 0.0)
        y[0, 0, 0] = np.nan
        out = Value(2, y.shape)
        step = scatter_step(of, Value(0, src.shape), out, 1, add=add)
        yield Case(f"scatter {x.shape[2]} add {add}", (fill_step(out, 0.5), step),
                   {0: src, 1: index}, {2: y}, 1e-6)
