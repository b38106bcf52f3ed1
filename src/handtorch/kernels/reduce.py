"""Reductions, scans and softmax over one run of axes: specs and how large ones are split.

A tensor is seen as [OUTER][REDUCE][INNER]. Long reductions go in pieces that share no result, and
a second launch folds the pieces: no atomics, the same sum every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count as counting

import numpy as np

from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import (
    KIND_OF,
    MANY,
    axis_defines,
    axis_geometry,
    one_each,
)
from handtorch.kernels.spec import Kernel, ceil_div

FOLDS = {"sum": 0, "prod": 1, "amax": 2, "amin": 3, "any": 2}
MAPS = {"": 0, "abs": 1, "square": 2}

_AXIS = {"OUTER": "int", "REDUCE": "int", "INNER": "int"}
_FOLD = {"FOLD": 0, "OF": 0, "KIND": 0}
_WIDE = {"V": 4, "FLAT": 0, "GROUP": 16}
_SINGLE = {"FLAT": 0, "GROUP": 16}
REDUCE_ROW = Kernel("reduce_row", ("r", "w"), one_each("PIECES", "OUTER"),
                    {"REDUCE": "int", "PIECE": "int", "SCALE": "float"}, _FOLD)
REDUCE_AXIS = Kernel("reduce_axis", ("r", "w"), axis_geometry,
                     {**_AXIS, "PIECE": "int", "SCALE": "float"}, {**_FOLD, **_WIDE})
ARG_AXIS = Kernel("arg_axis", ("r", "w", "w"), axis_geometry, {**_AXIS, "PIECE": "int"},
                  {"LARGEST": 1, "KIND": 0, "AGAIN": 0, **_SINGLE})
SCAN_AXIS = Kernel("scan_axis", ("r", "w"), axis_geometry, _AXIS,
                   {"PRODUCT": 0, "KIND": 0, **_SINGLE})
SOFTMAX_ROW = Kernel("softmax_row", ("r", "w"), one_each("ROWS"), {"COLUMNS": "int"}, {"LOG": 0})
SOFTMAX_AXIS = Kernel("softmax_axis", ("r", "w"), axis_geometry, _AXIS, {"LOG": 0, **_WIDE})
SOFTMAX_GRAD_ROW = Kernel("softmax_grad_row", ("r", "r", "w"), one_each("ROWS"),
                          {"COLUMNS": "int"}, {"LOG": 0})
SOFTMAX_GRAD_AXIS = Kernel("softmax_grad_axis", ("r", "r", "w"), axis_geometry, _AXIS,
                           {"LOG": 0, **_WIDE})
KERNELS = (REDUCE_ROW, REDUCE_AXIS, ARG_AXIS, SCAN_AXIS, SOFTMAX_ROW, SOFTMAX_AXIS,
           SOFTMAX_GRAD_ROW, SOFTMAX_GRAD_AXIS)

# A piece of a row and of a column: at least so much that a second launch pays, at most so much
# that a sum of block sums stays accurate.
ROW_PIECE, COLUMN_PIECE = (4096, 65536), (64, 4096)
SHORT_ROW = 32                 # below it an item per row in groups beats a group per row


def pieces_of(items: int, length: int, bounds: tuple[int, int]) -> tuple[int, int]:
    """(number of pieces, length of each) so that `items` rows of `length` keep cores busy."""
    least, most = bounds
    count = max(ceil_div(length, most), min(ceil_div(MANY, items), ceil_div(length, least)), 1)
    piece = ceil_div(ceil_div(length, count), 16) * 16 if count > 1 else length
    return ceil_div(length, piece), piece


def fold_steps(x: Value, y: Value, sizes: tuple[int, int, int], fold: str, *,
               scratch: Callable[[Shape], Value], of: str = "", scale: float = 1.0, node: int = 0
               ) -> list[Step]:
    """`y[o][i]` = scale * fold over r of of(x[o][r][i]); a second launch where pieces pay."""
    outer, length, inner = sizes
    defines = {"FOLD": FOLDS[fold], "OF": MAPS[of], "KIND": KIND_OF[x.dtype]}
    by_rows = inner == 1 and length >= SHORT_ROW
    wide = axis_defines(outer, inner)
    items = outer if by_rows else max(outer * inner // wide["V"] // wide["GROUP"], 1)
    count, piece = pieces_of(items, length, ROW_PIECE if by_rows else COLUMN_PIECE)
    out = y
    if count > 1:
        out = replace(scratch((outer, count, inner)), dtype=x.dtype)
    numbers = {"OUTER": outer, "REDUCE": length, "INNER": inner, "PIECE": piece, "PIECES": count,
               "SCALE": 1.0 if count > 1 else scale}
    kernel, macros = (REDUCE_ROW, defines) if by_rows else (REDUCE_AXIS, {**defines, **wide})
    first = kernel.step((x, out), numbers, macros, node=node, flops=outer * length * inner)
    if count == 1:
        return [first]
    return [first, *fold_steps(out, y, (outer, count, inner), fold, scratch=scratch, scale=scale,
                               node=node)]


def arg_steps(x: Value, best: Value, where: Value, sizes: tuple[int, int, int], *, largest: bool,
              scratch: Callable[[Shape], Value], node: int = 0) -> list[Step]:
    """The extreme of each [o][.][i] and its index; pieces as in `fold_steps`."""
    outer, length, inner = sizes
    wide = axis_defines(outer, inner, vectors=False)
    defines = {"LARGEST": int(largest), "KIND": KIND_OF[x.dtype], **wide}
    count, piece = pieces_of(max(outer * inner // wide["GROUP"], 1), length, (1024, 1 << 30))
    numbers = {"OUTER": outer, "REDUCE": length, "INNER": inner, "PIECE": piece, "PIECES": count}
    if count == 1:
        return [ARG_AXIS.step((x, best, where), numbers, defines, node=node)]
    tops = replace(scratch((outer, count, inner)), dtype=x.dtype)
    found = replace(scratch((outer, count, inner)), dtype="i32")
    last = {**numbers, "REDUCE": count, "PIECE": count, "PIECES": 1}
    return [ARG_AXIS.step((x, tops, found), numbers, defines, node=node),
            ARG_AXIS.step((tops, found, best, where), last, {**defines, "AGAIN": 1}, node=node,
                          access=("r", "r", "w", "w"))]


def softmax_step(x: Value, y: Value, sizes: tuple[int, int, int], *, log: bool, node: int = 0,
                 flops: int = 0) -> Step:
    return _softmax((x, y), (SOFTMAX_ROW, SOFTMAX_AXIS), sizes, log, node, flops)


def softmax_grad_step(g: Value, y: Value, dx: Value, sizes: tuple[int, int, int], *, log: bool,
                      node: int = 0, flops: int = 0) -> Step:
    return _softmax((g, y, dx), (SOFTMAX_GRAD_ROW, SOFTMAX_GRAD_AXIS), sizes, log, node, flops)


def _softmax(values: tuple[Value, ...], forms: tuple[Kernel, Kernel], sizes: tuple[int, int, int],
             log: bool, node: int, flops: int) -> Step:
    outer, length, inner = sizes
    by_row, by_axis = forms
    if inner == 1:
        return by_row.step(values, {"ROWS": outer, "COLUMNS": length}, {"LOG": int(log)},
                           node=node, flops=flops)
    return by_axis.step(values, {"OUTER": outer, "REDUCE": length, "INNER": inner},
                        {"LOG": int(log), **axis_defines(outer, inner)}, node=node, flops=flops)


def scan_step(x: Value, y: Value, sizes: tuple[int, int, int], *, product: bool, node: int = 0
              ) -> Step:
    outer, length, inner = sizes
    return SCAN_AXIS.step((x, y), {"OUTER": outer, "REDUCE": length, "INNER": inner},
                          {"PRODUCT": int(product), "KIND": KIND_OF[x.dtype],
                           **axis_defines(outer, inner, vectors=False)},
                          node=node, flops=outer * length * inner)


_REDUCERS: dict[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.max}
_MAPPERS: dict[str, Callable[[Array], Array]] = {
    "": np.asarray, "abs": np.abs, "square": np.square}


def _value(number: int, array: Array) -> Value:
    return Value(number, array.shape, {"f": "f32", "i": "i32", "b": "bool"}[array.dtype.kind])


class _Scratch:
    """Values with fresh ids."""

    def __init__(self, first: int) -> None:
        self._ids = counting(first)

    def __call__(self, shape: Shape) -> Value:
        return Value(next(self._ids), shape)


def _fold_case(name: str, x: Array, fold: str, of: str = "", scale: float = 1.0) -> Case:
    wide = x.astype("f8" if x.dtype.kind == "f" else "i8")
    want = scale * _REDUCERS[fold](_MAPPERS[of](wide), axis=1)
    steps = fold_steps(_value(0, x), Value(1, want.shape, _value(0, x).dtype), x.shape, fold,
                       of=of, scale=scale, scratch=_Scratch(2))
    return Case(f"reduce {name} {fold} {of}{x.shape}", tuple(steps), {0: x}, {1: want})


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(13)

    def normal(*shape: int) -> Array:
        return rng.normal(0, 2, shape).astype("f4")

    for shape in ((3, 7, 1), (2, 33, 1), (3, 130, 1), (3, 7, 5), (2, 70, 16), (1, 130, 6),
                  (1, 40, 34)):
        yield _fold_case("f32", normal(*shape), "sum", scale=0.5)
    yield _fold_case("pieces", normal(1, 4100, 1), "sum")
    yield _fold_case("f32", normal(2, 40, 1), "sum", "square")
    yield _fold_case("f32", normal(2, 9, 4), "amax", "abs")
    with_nan = normal(2, 50, 1)
    with_nan[0, 33] = np.nan
    for fold in ("amax", "amin"):
        yield _fold_case("nan", with_nan, fold)
        yield _fold_case("nan", with_nan.reshape(2, 10, 5), fold)
        yield _fold_case("i32", (9 * normal(2, 40, 1)).astype("i4"), fold)
    yield _fold_case("f32", normal(2, 5, 3), "prod")
    yield _fold_case("bool", normal(3, 40, 1) > 4, "any")
    yield _fold_case("bool", normal(3, 4, 8) > 2, "any")
    yield from _arg_cases(normal)
    yield from _softmax_cases(normal)
    yield from _scan_cases(normal)


def _arg_cases(normal: Callable[..., Array]) -> Iterator[Case]:
    tied = np.round(normal(2, 9, 3))
    tied[0, 4, 1] = tied[1, 2:5, 0] = np.nan
    for number, x in enumerate((tied, normal(3, 11, 1), normal(1, 2100, 1), normal(1, 3, 17),
                                (3 * normal(1, 5, 1)).astype("i4"))):
        for largest in (True, False):
            at = (np.argmax if largest else np.argmin)(x, axis=1)       # NaN wins here too
            best = np.take_along_axis(x, at[:, None], 1)[:, 0]
            steps = arg_steps(_value(0, x), Value(1, best.shape, _value(0, x).dtype),
                              Value(2, best.shape, "i32"), x.shape, largest=largest,
                              scratch=_Scratch(3))
            yield Case(f"arg {number} {'largest' if largest else 'smallest'}", tuple(steps),
                       {0: x}, {1: best.astype("f8"), 2: at.astype("f8")})


def _softmax_cases(normal: Callable[..., Array]) -> Iterator[Case]:
    for shape in ((5, 1, 1), (2, 15, 1), (3, 16, 1), (2, 40, 1), (2, 7, 4), (2, 5, 3), (1, 3, 32)):
        x, g = normal(*shape), normal(*shape)
        e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        for log in (False, True):
            name = f"softmax{' log' if log else ''} {shape}"
            y = np.log(p) if log else p
            a, b, c = (Value(i, x.shape) for i in range(3))
            yield Case(name, (softmax_step(a, b, x.shape, log=log),), {0: x}, {1: y})
            total = (g if log else g * p).sum(1, keepdims=True)
            yield Case(f"{name} grad", (softmax_grad_step(a, b, c, x.shape, log=log),),
                       {0: g, 1: y.astype("f4")},
                       {2: g - p * total if log else p * (g - total)})


def _scan_cases(normal: Callable[..., Array]) -> Iterator[Case]:
    for x in (normal(3, 17, 1), normal(1, 5, 20), (4 * normal(2, 9, 2)).astype("i4")):
        for product in (False, True):
            y = (np.cumprod if product else np.cumsum)(x.astype("f8"), axis=1)
            if product and x.dtype.kind == "i":
                continue                                     # overflows
            a, b = _value(0, x), replace(_value(0, x), id=1)
            yield Case(f"scan {'product' if product else 'sum'} {x.shape}",
                       (scan_step(a, b, x.shape, product=product),), {0: x}, {1: y})
