"""Specs and cases of the small kernels: sums, softmax, losses, updates, data movement."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

GROUP = 16


def _grouped(count: str, rows: str = "") -> Callable[[Defines, Sizes], Geometry]:
    """One item per `count`, in groups of GROUP; `rows` on the second dimension."""
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        group = number(defines, "GROUP")
        across = ceil_div(max(int(sizes[count]), 1), group) * group
        return (across, int(sizes[rows]) if rows else 1), (group, 1)
    return geometry


def _one_each(rows: str) -> Callable[[Defines, Sizes], Geometry]:
    return lambda _, sizes: ((int(sizes[rows]),), (1,))


def _one_item(_: Defines, __: Sizes) -> Geometry:
    return (1,), (1,)


_WIDE = {"GROUP": GROUP}
SUM_AXIS = Kernel("sum_axis", ("r", "w"), _grouped("INNER", "OUTER"),
                  {"REDUCE": "int", "INNER": "int"}, _WIDE)
SUM_ROW = Kernel("sum_row", ("r", "w"), _one_each("OUTER"), {"REDUCE": "int", "SCALE": "float"})
SOFTMAX_ROW = Kernel("softmax_row", ("r", "w"), _one_each("ROWS"), {"COLUMNS": "int"}, {"LOG": 0})
LOG_SOFTMAX_GRAD = Kernel("log_softmax_grad", ("r", "r", "w"), _one_each("ROWS"),
                          {"COLUMNS": "int"})
COUNT_TARGETS = Kernel("count_targets", ("r", "w"), _one_item, {"ROWS": "int", "IGNORE": "int"},
                       {"MEAN": 1})
CROSS_ENTROPY = Kernel("cross_entropy", ("r", "r", "r", "w", "w"), _one_each("ROWS"),
                       {"COLUMNS": "int", "IGNORE": "int"})
WEIGHTED_SUM = Kernel("weighted_sum", ("r", "r", "w"), _one_item, {"COUNT": "int"})
NLL_ROWS = Kernel("nll_rows", ("r", "r", "w"), _one_each("ROWS"),
                  {"COLUMNS": "int", "IGNORE": "int"})
NLL_GRAD = Kernel("nll_grad", ("r", "r", "r", "w"), _one_each("ROWS"),
                  {"COLUMNS": "int", "IGNORE": "int"})
SGD = Kernel("sgd", ("r", "r", "rw", "rw"), _grouped("COUNT"),
             {"COUNT": "int", "SIGN": "float", "DECAY": "float", "MOMENTUM": "float"},
             {**_WIDE, "HAS_MOMENTUM": 1, "NESTEROV": 0})
KERNELS = (SUM_AXIS, SUM_ROW, SOFTMAX_ROW, LOG_SOFTMAX_GRAD, COUNT_TARGETS, CROSS_ENTROPY,
           WEIGHTED_SUM, NLL_ROWS, NLL_GRAD, SGD)


def _case(name: str, kernel: Kernel, given: list[Array], sizes: Sizes, expected: dict[int, Array],
          **defines: int) -> Case:
    """Operands in the kernel's order; arrays of results in `given` say only their shape."""
    kinds = {"int32": "i32", "float32": "f32"}
    values = [Value(i, a.shape, kinds[a.dtype.name]) for i, a in enumerate(given)]
    return Case(name, (kernel.step(values, sizes, defines),), dict(enumerate(given)), expected)


def _softmax(x: Array) -> Array:
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(11)

    def normal(*shape: int) -> Array:
        return rng.normal(0, 2, shape).astype("f4")

    def blank(*shape: int) -> Array:
        return np.zeros(shape, "f4")

    for inner in (1, 15, 16, 17, 40):
        x = normal(3, 7, inner)
        yield _case(f"sum_axis {inner}", SUM_AXIS, [x, blank(3, inner)],
                    {"OUTER": 3, "REDUCE": 7, "INNER": inner}, {1: x.astype("f8").sum(1)})
    for width in (1, 15, 16, 17, 40):
        yield from _row_cases(normal(5, width), blank, rng)
    yield from _bad_target_cases(normal(4, 17), blank)
    yield from _sgd_cases(normal)


def _row_cases(x: Array, blank: Callable[..., Array], rng: np.random.Generator) -> Iterator[Case]:
    rows, width = x.shape
    size = {"ROWS": rows, "COLUMNS": width}
    p = _softmax(x)
    yield _case(f"sum_row {width}", SUM_ROW, [x, blank(rows)],
                {"OUTER": rows, "REDUCE": width, "SCALE": 0.5}, {1: 0.5 * x.astype("f8").sum(1)})
    yield _case(f"softmax_row {width}", SOFTMAX_ROW, [x, blank(rows, width)], size, {1: p})
    yield _case(f"softmax_row log {width}", SOFTMAX_ROW, [x, blank(rows, width)], size,
                {1: np.log(p)}, LOG=1)
    g, y = rng.normal(size=x.shape).astype("f4"), np.log(p).astype("f4")
    yield _case(f"log_softmax_grad {width}", LOG_SOFTMAX_GRAD, [g, y, blank(rows, width)], size,
                {2: g - np.exp(y.astype("f8")) * g.astype("f8").sum(1, keepdims=True)})
    target = rng.integers(0, width, rows).astype("i4")
    target[1] = -100
    used, n = target != -100, np.float32(0.25).reshape(1)
    hot = np.where(used[:, None], np.eye(width)[np.maximum(target, 0)], 0)
    losses = -(np.log(p) * hot).sum(1)
    ignore = {**size, "IGNORE": -100}
    yield _case(f"cross_entropy {width}", CROSS_ENTROPY,
                [x, target, n, blank(rows), blank(rows, width)], ignore,
                {3: losses, 4: np.where(used[:, None], p - hot, 0) * 0.25})
    yield _case(f"nll_rows {width}", NLL_ROWS, [y, target, blank(rows)], ignore, {2: losses})
    yield _case(f"nll_grad {width}", NLL_GRAD, [n * 2, target, n, blank(rows, width)], ignore,
                {3: -hot * 0.125})
    yield _case(f"count_targets {width}", COUNT_TARGETS, [target, blank(1)], ignore,
                {1: np.array([1 / (rows - 1)])})
    yield _case(f"count_targets sum {width}", COUNT_TARGETS, [target, blank(1)], ignore,
                {1: np.ones(1)}, MEAN=0)
    yield _case(f"weighted_sum {width}", WEIGHTED_SUM, [x[0].copy(), n, blank(1)],
                {"COUNT": width}, {2: np.array([0.25 * x[0].astype("f8").sum()])})


def _bad_target_cases(x: Array, blank: Callable[..., Array]) -> Iterator[Case]:
    """A target outside the classes gives NaN in its row, and touches nothing else."""
    rows, width = x.shape
    target, n = np.array([3, width, -1, 2**31 - 1], "i4"), np.ones(1, "f4")
    p, size = _softmax(x), {"ROWS": rows, "COLUMNS": width, "IGNORE": -100}
    hot = np.full(x.shape, np.nan)
    hot[0] = np.eye(width)[3]
    losses = -(np.log(p) * hot).sum(1)
    yield _case("cross_entropy bad target", CROSS_ENTROPY,
                [x, target, n, blank(rows), blank(rows, width)], size, {3: losses, 4: p - hot})
    yield _case("nll_rows bad target", NLL_ROWS, [np.log(p).astype("f4"), target, blank(rows)],
                size, {2: losses})
    yield _case("nll_grad bad target", NLL_GRAD, [n, target, n, blank(rows, width)], size,
                {3: -hot})


def _sgd_cases(normal: Callable[..., Array]) -> Iterator[Case]:
    rate = np.float32(0.1).reshape(1)
    for count in (1, 16, 17):
        g, w, m = normal(count), normal(count), normal(count)
        d = g + 0.01 * w.astype("f8")
        plain = {"COUNT": count, "SIGN": 1.0, "DECAY": 0.01, "MOMENTUM": 0.0}
        values = [Value(i, a.shape) for i, a in enumerate((g, rate, w))]
        step = SGD.step(values, plain, {"HAS_MOMENTUM": 0}, access=("r", "r", "rw"))
        yield Case(f"sgd plain {count}", (step,), dict(enumerate((g, rate, w))), {2: w - 0.1 * d})
        moved = 0.9 * m + d
        for nesterov in (0, 1):
            new = w - 0.1 * (d + 0.9 * moved if nesterov else moved)
            yield _case(f"sgd momentum {count} {nesterov}", SGD, [g, rate, w, m],
                        {**plain, "MOMENTUM": 0.9}, {2: new, 3: moved}, NESTEROV=nesterov)
