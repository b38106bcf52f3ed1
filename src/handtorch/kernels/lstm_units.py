"""One LSTM network in the two ways of the MobiRNN paper: fine and coarse units of work.

fine    the habit of desktop GPUs: an item for each output column, a launch for each product of a
        gate and for each point-wise operation, a c and an h kept for every cell
coarse  the paper's: few units of several columns each, the input and h in one product, all
        point-wise work in one launch, the cells of one anti-diagonal of (layer, time) together,
        and a c and an h for each cell of the widest anti-diagonal, which is a layer each

Both compute `LstmWeights` on [time, batch, signals]; time comes first so that the rows of one step
lie together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array
from handtorch.kernels.lstm_weights import GATES, LstmWeights
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

_OPS = ("sigmoid", "tanh", "relu", "add", "multiply")     # the macro OP
_ACTIVATIONS = ("sigmoid", "sigmoid", "tanh", "sigmoid")  # of i, f, g, o
_CELLS_GROUP, _COARSE_GROUP = 16, 32


def _columns(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(int(sizes["N"]), group) * group, int(sizes["ROWS"])), (group, 1)


def _numbers(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    return (ceil_div(int(sizes["COUNT"]), group) * group,), (group,)


def _units(defines: Defines, sizes: Sizes) -> Geometry:
    blocks = int(sizes["PADDED"]) // number(defines, "COLUMNS")
    return (min(int(sizes["UNITS"]), blocks), int(sizes["BATCH"]), int(sizes["CELLS"])), (1, 1, 1)


def _cells(defines: Defines, sizes: Sizes) -> Geometry:
    group = number(defines, "GROUP")
    across = ceil_div(int(sizes["H"]), group) * group
    return (across, int(sizes["BATCH"]), int(sizes["CELLS"])), (group, 1, 1)


def _ints(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "int")


PRODUCT = Kernel("lstm_product", ("r", "r", "r", "w"), _columns,
                 _ints("ROWS", "N", "K", "A_ROW", "OUT_ROW"),
                 {"GROUP": 1, "START": 0, "RELU": 0})
POINT = Kernel("lstm_point", ("r", "r", "w"), _numbers,
               _ints("COUNT", "A_FROM", "B_FROM", "OUT_FROM"), {"GROUP": 1, "OP": 3})
DIAGONAL = Kernel("lstm_diagonal", ("r", "r", "r", "r", "w"), _units,
                  _ints("BATCH", "H", "PADDED", "D", "FIRST"), {"COLUMNS": 10})
CELLS = Kernel("lstm_cells", ("r", "rw", "rw"), _cells,
               _ints("BATCH", "H", "PADDED", "D", "FIRST"), {"GROUP": _CELLS_GROUP})
KERNELS: tuple[Kernel, ...] = (PRODUCT, POINT, DIAGONAL, CELLS)


@dataclass(frozen=True)
class Units:
    """How the product of a cell is shared out: `units` items of `columns` columns at a time."""

    units: int
    columns: int

    def __post_init__(self) -> None:
        assert self.units >= 1 and 1 <= self.columns <= 16, f"{self.units} x {self.columns}"

    def __str__(self) -> str:
        return f"{self.units} x {self.columns}"


PAPER_UNITS = Units(12, 10)


@dataclass(frozen=True)
class Recipe:
    """All launches for one batch of windows: from `x` [time, batch, signals] to `scores`.

    `given` holds the weights by value id; states need no data."""

    steps: tuple[Step, ...]
    given: Mapping[int, Array]
    x: Value
    scores: Value
    cells: int                              # layers x time
    kept: tuple[Value, ...]                 # all c and h

    @property
    def launches_per_cell(self) -> float:
        return len(self.steps) / self.cells


@dataclass
class _Building:
    """Values and launches while a recipe is put together."""

    weights: LstmWeights
    time: int
    batch: int
    given: dict[int, Array] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    count: int = 0

    def value(self, *shape: int) -> Value:
        self.count += 1
        return Value(self.count - 1, shape)

    def hold(self, array: Array) -> Value:
        value = self.value(*array.shape)
        self.given[value.id] = np.ascontiguousarray(array, "f4")
        return value

    def product(self, a: Value, w: Value, out: Value, bias: Value | None = None, *, rows: int,
                a_row: int = 0, out_row: int = 0, relu: bool = False, group: int) -> None:
        """out = bias + a w, or without a bias out + a w."""
        k, n = w.shape
        values = (a, w, out) if bias is None else (a, w, bias, out)
        self.steps.append(PRODUCT.step(
            values, {"ROWS": rows, "N": n, "K": k, "A_ROW": a_row, "OUT_ROW": out_row},
            {"GROUP": group, "START": int(bias is None), "RELU": int(relu)},
            access=("r", "r", "rw") if bias is None else PRODUCT.access, flops=2 * rows * n * k))

    def point(self, op: str, out: tuple[Value, int], *of: tuple[Value, int], count: int,
              group: int) -> None:
        """out = op(of): each a value and the element from which on it is meant."""
        froms = [at for _, at in of] + [0] * (2 - len(of))
        self.steps.append(POINT.step(
            (*(v for v, _ in of), out[0]),
            {"COUNT": count, "A_FROM": froms[0], "B_FROM": froms[1], "OUT_FROM": out[1]},
            {"GROUP": group, "OP": _OPS.index(op)}, access=(*"r" * len(of), "w"), flops=count))

    def recipe(self, x: Value, scores: Value, kept: tuple[Value, ...]) -> Recipe:
        return Recipe(tuple(self.steps), self.given, x, scores, self.weights.layers * self.time,
                      kept)


def fine(weights: LstmWeights, *, time: int, batch: int = 1, group: int = 1) -> Recipe:
    """17 launches a cell: two products for each of four gates, four activations, five operations.

    With `group` 1 every column is scheduled by itself, as the paper tells it; a desktop GPU has
    them in groups."""
    make, h, each = _Building(weights, time, batch), weights.hidden, batch * weights.hidden
    x, w_in, b_in = make.value(time, batch, weights.signals), make.hold(weights.w_in), \
        make.hold(weights.b_in)
    below = make.value(time, batch, h)
    make.product(x, w_in, below, b_in, rows=time * batch, group=group)
    make.point("relu", (below, 0), (below, 0), count=time * each, group=group)
    gates = [make.value(batch, h) for _ in range(GATES)]
    kept: list[Value] = []
    first = 0                               # the row of `below` at which time 0 is
    for kernel, bias in zip(weights.kernels, weights.biases, strict=True):
        parts = [tuple(make.hold(half) for half in np.split(w, 2))
                 for w in np.split(kernel, GATES, 1)]
        biases = [make.hold(b) for b in np.split(bias, GATES)]
        hs, cs = (make.hold(np.zeros((time + 1, batch, h))) for _ in range(2))    # row 0 stays
        kept += [hs, cs]
        for t in range(time):
            _fine_cell(make, below, first + t, parts, biases, gates, hs, cs, t, group)
        below, first = hs, 1
    scores = make.value(batch, weights.classes)
    make.product(below, make.hold(weights.w_out), scores, make.hold(weights.b_out), rows=batch,
                 a_row=time * batch, group=group)
    return make.recipe(x, scores, tuple(kept))


def _fine_cell(make: _Building, below: Value, row: int, parts: list[tuple[Value, ...]],
               biases: list[Value], gates: list[Value], hs: Value, cs: Value, t: int,
               group: int) -> None:
    batch = make.batch
    each = batch * make.weights.hidden

    def point(op: str, out: tuple[Value, int], *of: tuple[Value, int]) -> None:
        make.point(op, out, *of, count=each, group=group)
    for gate, (from_input, from_h), bias, act in zip(gates, parts, biases, _ACTIVATIONS,
                                                     strict=True):
        make.product(below, from_input, gate, bias, rows=batch, a_row=row * batch, group=group)
        make.product(hs, from_h, gate, rows=batch, a_row=t * batch, group=group)
        point(act, (gate, 0), (gate, 0))
    i, f, g, o = ((gate, 0) for gate in gates)
    c, h = (cs, (t + 1) * each), (hs, (t + 1) * each)
    point("multiply", f, f, (cs, t * each))
    point("multiply", i, i, g)
    point("add", c, f, i)
    point("tanh", g, c)
    point("multiply", h, o, g)


def coarse(weights: LstmWeights, *, time: int, batch: int = 1, units: Units = PAPER_UNITS
           ) -> Recipe:
    """Two launches for each of the time + layers - 1 anti-diagonals, one before, one after."""
    make, h, layers = _Building(weights, time, batch), weights.hidden, weights.layers
    padded = ceil_div(GATES * h, units.columns) * units.columns
    edge = padded - GATES * h
    x = make.value(time, batch, weights.signals)
    below = make.value(time, batch, h)
    make.product(x, make.hold(weights.w_in), below, make.hold(weights.b_in), rows=time * batch,
                 relu=True, group=_COARSE_GROUP)
    kernel = make.hold(np.pad(np.stack(weights.kernels), ((0, 0), (0, 0), (0, edge))))
    bias = make.hold(np.pad(np.stack(weights.biases), ((0, 0), (0, edge))))
    hs, cs = (make.value(layers, batch, h) for _ in range(2))
    gates = make.value(layers, batch, padded)
    for d, first, cells in diagonals(layers, time):
        sizes = {"BATCH": batch, "H": h, "PADDED": padded, "D": d, "FIRST": first,
                 "UNITS": units.units, "CELLS": cells}
        make.steps += [
            DIAGONAL.step((below, kernel, bias, hs, gates), sizes, {"COLUMNS": units.columns},
                          flops=2 * cells * batch * 2 * h * GATES * h),
            CELLS.step((gates, cs, hs), sizes, flops=20 * cells * batch * h)]
    scores = make.value(batch, weights.classes)
    make.product(hs, make.hold(weights.w_out), scores, make.hold(weights.b_out), rows=batch,
                 a_row=(layers - 1) * batch, group=_COARSE_GROUP)
    return make.recipe(x, scores, (hs, cs))


def diagonals(layers: int, time: int) -> Iterator[tuple[int, int, int]]:
    """Each anti-diagonal: layer + time, its first layer, how many cells it has."""
    for d in range(time + layers - 1):
        first, last = max(0, d - time + 1), min(layers - 1, d)
        yield d, first, last - first + 1
