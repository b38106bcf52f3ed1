"""Normalisation: statistics, the sums of their gradients, layer-norm; specs and splitting.

A tensor is seen as [PLANES][CHANNELS][SIZE]; statistics are per channel, over planes and sizes.
Batch-norm has as many planes as samples; group- and layer-norm have one plane and their groups or
rows as channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import MANY, one_case, one_each
from handtorch.kernels.spec import (
    Defines,
    Geometry,
    Kernel,
    Sizes,
    ceil_div,
    dividing_width,
    number,
)


def _columns(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    across = ceil_div(int(sizes["CHANNELS"]), int(sizes["STRIP"]))
    return (ceil_div(across, group) * group, int(sizes["CHUNKS"])), (group, 1)


def _fold(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(int(sizes["CHANNELS"]) // number(defines, "V"), group) * group,), (group,)


_PLANES = {"PLANES": "int", "CHANNELS": "int", "SIZE": "int", "TAKE": "int", "PIECE": "int"}
STATS = Kernel("norm_stats", ("r", "w"), one_each("CHUNKS", "CHANNELS"), _PLANES)
STATS_COLUMNS = Kernel("norm_stats_columns", ("r", "w"), _columns,
                       {"PLANES": "int", "CHANNELS": "int", "TAKE": "int", "STRIP": "int"},
                       {"V": 4, "GROUP": 16})
FOLD = Kernel("norm_fold", ("r", "w", "w"), _fold,
              {**_PLANES, "EPS": "float", "MOMENTUM": "float"},
              {"TRACK": 0, "V": 4, "GROUP": 16})
GRAD_SUMS = Kernel("norm_grad_sums", ("r", "r", "r", "r", "w"), one_each("CHUNKS", "CHANNELS"),
                   {**_PLANES, "SHARE": "int"})
GRAD_COLUMNS = Kernel("norm_grad_columns", ("r", "r", "r", "r", "w"), _columns,
                      {"ROWS": "int", "CHANNELS": "int", "TAKE": "int", "STRIP": "int"},
                      {"V": 4, "BY_ROW": 0, "GROUP": 16})
GRAD_FOLD = Kernel("norm_grad_fold", ("r", "w", "w"), _fold,
                   {"CHANNELS": "int", "CHUNKS": "int"}, {"V": 4, "GROUP": 16})
LAYER_NORM = Kernel("layer_norm", ("r", "w", "w", "w"), one_each("ROWS"),
                    {"COLUMNS": "int", "EPS": "float"}, {"AFFINE": 0})
LAYER_NORM_GRAD = Kernel("layer_norm_grad", ("r", "r", "r", "r", "w"), one_each("ROWS"),
                         {"COLUMNS": "int"}, {"WEIGHTED": 0})
KERNELS = (STATS, STATS_COLUMNS, FOLD, GRAD_SUMS, GRAD_COLUMNS, GRAD_FOLD, LAYER_NORM,
           LAYER_NORM_GRAD)

# A chunk stays in the nearest cache between its sweeps, and is worth an item of its own.
LEAST, MOST = 512, 4096
LEAST_ROWS, MOST_ROWS = 16, 256
# A CPU reads memory fastest in the order in which it lies: an item takes whole rows, up to so many
# channels; few of them write little, and 128 blocks of 8 rows are summed as well as 128 rows.
LONG_ROWS, MOST_LONG_ROWS, WIDEST_STRIP = 64, 1024, 1024


@dataclass(frozen=True)
class Chunks:
    """How [planes, channels, size] is shared out: `take` planes, or a `piece` of one, an item;
    where size is 1, `take` rows and `strip` channels of them."""

    planes: int
    channels: int
    size: int
    take: int
    piece: int
    strip: int = 1

    @classmethod
    def of(cls, planes: int, channels: int, size: int, spec: DeviceSpec) -> Chunks:
        width = dividing_width(channels)
        if size == 1 and spec.kind == "cpu":
            many = min(8 * spec.compute_units, MANY)
            rows = min(max(ceil_div(planes, many), LONG_ROWS), MOST_LONG_ROWS)
            strips = max(ceil_div(many, ceil_div(planes, rows)), ceil_div(channels, WIDEST_STRIP))
            strip = ceil_div(channels // width, strips) * width
            return cls(planes, channels, size, ceil_div(rows, 8) * 8, 1, strip)
        if size == 1:
            wide = ceil_div(channels, 16)
            rows = min(max(ceil_div(planes * wide, MANY), LEAST_ROWS), MOST_ROWS)
            return cls(planes, channels, size, rows, 1, width)
        want = min(max(ceil_div(planes * size * channels, MANY), LEAST), MOST)
        if size <= want:
            return cls(planes, channels, size, max(want // size, 1), size)
        pieces = ceil_div(size, want)
        return cls(planes, channels, size, 1, ceil_div(ceil_div(size, pieces), 16) * 16)

    @property
    def count(self) -> int:
        return ceil_div(self.planes, self.take) * ceil_div(self.size, self.piece)

    def sizes(self) -> dict[str, int | float]:
        return {"PLANES": self.planes, "ROWS": self.planes, "CHANNELS": self.channels,
                "SIZE": self.size, "TAKE": self.take, "PIECE": self.piece, "STRIP": self.strip,
                "CHUNKS": self.count}

    def lanes(self, strip: int = 1) -> dict[str, int]:
        """V and GROUP of kernels over channels, `strip` of them or V an item."""
        width = dividing_width(self.channels)
        alone = width > 1 or strip > 1 or self.channels < 16
        return {"V": width, "GROUP": 1 if alone else 16}


def stats_steps(chunks: Chunks, x: Value, parts: Value, out: Sequence[Value], *, eps: float,
                momentum: float = 0.0, node: int = 0, flops: int = 0) -> list[Step]:
    """`out` = mean, scale and, where tracked, the running mean and variance, moved in place."""
    sizes = {**chunks.sizes(), "EPS": eps, "MOMENTUM": momentum}
    if chunks.size == 1:
        first = STATS_COLUMNS.step((x, parts), sizes, chunks.lanes(chunks.strip), node=node,
                                   flops=flops)
    else:
        first = STATS.step((x, parts), sizes, node=node, flops=flops)
    track = int(len(out) > 2)
    return [first, FOLD.step((parts, *out), sizes, {**chunks.lanes(), "TRACK": track}, node=node,
                             access=["r", "w", "w"] + ["rw"] * (2 * track))]


def grad_sum_steps(chunks: Chunks, inputs: Sequence[Value], parts: Value, out: Sequence[Value], *,
                   share: int = 1, by_row: bool = False, node: int = 0, flops: int = 0
                   ) -> list[Step]:
    """`inputs` = g, x, mean, scale; `out` = the sums of g * (x - mean) * scale and of g."""
    sizes = {**chunks.sizes(), "SHARE": share}
    values = (*inputs, parts)
    if chunks.size == 1 and share == 1:
        defines = {**chunks.lanes(chunks.strip), "BY_ROW": int(by_row)}
        first = GRAD_COLUMNS.step(values, sizes, defines, node=node, flops=flops)
    else:
        first = GRAD_SUMS.step(values, sizes, node=node, flops=flops)
    return [first, GRAD_FOLD.step((parts, *out), sizes, chunks.lanes(), node=node)]


def _moments(x: Array, eps: float) -> tuple[Array, Array]:
    """Mean and scale per channel of [planes, channels, size]."""
    wide = x.astype("f8")
    return wide.mean((0, 2)), 1 / np.sqrt(wide.var((0, 2)) + eps)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(19)
    shapes = ((2, 3, 20), (3, 2, 1), (5, 16, 1), (40, 6, 1), (1, 4, 7), (2, 1, 600), (300, 2, 4))
    for shape in shapes:
        x = rng.normal(30, 2, shape).astype("f4")            # far from 0: nothing may cancel
        yield from _stats_cases(rng, x, Chunks.of(*shape, GENERIC))
    for rows, channels in ((8, 16), (21, 48), (67, 5)):      # blocks of rows, and strips
        x = rng.normal(30, 2, (rows, channels, 1)).astype("f4")
        yield from _stats_cases(rng, x, Chunks(rows, channels, 1, 16, 1, 32))
    x = rng.normal(size=(1, 6, 5)).astype("f4")
    yield _grad_case(rng, x, x[0, :2, 0].copy(), np.full(2, 0.5, "f4"),
                     Chunks.of(1, 6, 5, GENERIC), share=3)
    for rows, columns in ((3, 1), (3, 15), (3, 16), (3, 40), (21, 40)):
        yield from _layer_norm_cases(rng, rows, columns)


def _stats_cases(rng: np.random.Generator, x: Array, chunks: Chunks) -> Iterator[Case]:
    channels, name = x.shape[1], f"{x.shape} strips of {chunks.strip}"
    mean, scale = _moments(x, 1e-5)
    v = [Value(i, (channels,)) for i in range(6)]
    parts = Value(9, (chunks.count, 2, channels))
    steps = stats_steps(chunks, Value(0, x.shape), parts, v[1:3], eps=1e-5)
    yield Case(f"norm_stats {name}", tuple(steps), {0: x}, {1: mean, 2: scale})
    old = rng.uniform(1, 2, (2, channels)).astype("f4")
    var = x.astype("f8").var((0, 2), ddof=1)
    steps = stats_steps(chunks, Value(0, x.shape), parts, v[1:5], eps=1e-5, momentum=0.25)
    yield Case(f"norm_stats tracked {name}", tuple(steps), {0: x, 3: old[0], 4: old[1]},
               {3: 0.75 * old[0] + 0.25 * mean, 4: 0.75 * old[1] + 0.25 * var})
    yield _grad_case(rng, x, mean.astype("f4"), scale.astype("f4"), chunks)


def _grad_case(rng: np.random.Generator, x: Array, mean: Array, scale: Array, chunks: Chunks,
               share: int = 1) -> Case:
    g = rng.normal(size=x.shape).astype("f4")
    each = [np.repeat(a.astype("f8"), share)[:, None] for a in (mean, scale)]
    v = [Value(0, x.shape), Value(1, x.shape), Value(2, mean.shape), Value(3, mean.shape)]
    out = [Value(4, (x.shape[1],)), Value(5, (x.shape[1],))]
    steps = grad_sum_steps(chunks, v, Value(6, (chunks.count, 2, x.shape[1])), out, share=share)
    return Case(f"norm_grad {x.shape} {share} strips of {chunks.strip}", tuple(steps),
                {0: g, 1: x, 2: mean, 3: scale},
                {4: (g * (x - each[0]) * each[1]).sum((0, 2)), 5: g.astype("f8").sum((0, 2))})


def _layer_norm_cases(rng: np.random.Generator, rows: int, columns: int) -> Iterator[Case]:
    x, g = (rng.normal(3, 2, (rows, columns)).astype("f4") for _ in range(2))
    w, b = (rng.normal(size=columns).astype("f4") for _ in range(2))
    mean, scale = (a[:, None] for a in _moments(x.reshape(1, rows, columns), 0.1))
    h = (x - mean) * scale
    flat = [mean[:, 0].astype("f4"), scale[:, 0].astype("f4")]
    sizes = {"ROWS": rows, "COLUMNS": columns, "EPS": 0.1}
    for affine, want in enumerate((h, h * w, h * w + b)):
        given = [x, *(w, b)[:affine], g, *flat]
        yield one_case(f"layer_norm {rows}x{columns} {affine}", LAYER_NORM, given, sizes,
                       {len(given) - 3: want, len(given) - 2: flat[0], len(given) - 1: flat[1]},
                       AFFINE=affine)
    for weighted in (0, 1):
        u = g * w if weighted else g.astype("f8")
        want = scale * (u - u.mean(1, keepdims=True) - h * (u * h).mean(1, keepdims=True))
        given = [g, x, *flat, *[w] * weighted, g]
        yield one_case(f"layer_norm_grad {rows}x{columns} {weighted}", LAYER_NORM_GRAD, given,
                       sizes, {len(given) - 1: want}, WEIGHTED=weighted)
    chunks = Chunks.of(rows, columns, 1, GENERIC)
    v = [Value(0, x.shape), Value(1, x.shape), Value(2, (rows,)), Value(3, (rows,))]
    out = [Value(4, w.shape), Value(5, w.shape)]
    steps = grad_sum_steps(chunks, v, Value(6, (chunks.count, 2, columns)), out, by_row=True)
    yield Case(f"layer_norm_grad affine {rows}x{columns}", tuple(steps),
               {0: g, 1: x, 2: flat[0], 3: flat[1]}, {4: (g * h).sum(0), 5: g.astype("f8").sum(0)})
