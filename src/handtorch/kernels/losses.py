"""Class losses: specs, how their sums are split, and cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import MANY, grouped, one_case, one_each, one_item
from handtorch.kernels.reduce import fold_steps
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number

COUNT_TARGETS = Kernel("count_targets", ("r", "w"), one_each("PIECES"),
                       {"ROWS": "int", "PIECE": "int", "CLASSES": "int", "IGNORE": "int"},
                       {"WEIGHTED": 0})
CROSS_ENTROPY = Kernel("cross_entropy", ("r", "r", "w", "w"), one_each("ITEMS"),
                       {"ROWS": "int", "COLUMNS": "int", "IGNORE": "int", "EACH": "int"},
                       {"MEAN": 0})
CROSS_ENTROPY_NARROW = Kernel("cross_entropy_narrow", ("r", "r", "w", "w"), one_each("ITEMS"),
                              {"ROWS": "int", "IGNORE": "int", "EACH": "int"},
                              {"MEAN": 0, "COLUMNS": 10})
WEIGHTED_SUM = Kernel("weighted_sum", ("r", "w"), one_item, {"COUNT": "int"}, {"MEAN": 0})
NLL_ROWS = Kernel("nll_rows", ("r", "r", "w"), grouped("COUNT"),
                  {"COUNT": "int", "CLASSES": "int", "INNER": "int", "IGNORE": "int"},
                  {"WEIGHTED": 0, "GROUP": 16})


def _grad_geometry(defines: Defines, sizes: Sizes) -> Geometry:
    along, group = number(defines, "ALONG"), number(defines, "GROUP")
    first, second = int(sizes["CLASSES"]), int(sizes["INNER"])
    if along:
        first, second = second, first
    return (ceil_div(first, group) * group, second, int(sizes["OUTER"])), (group, 1, 1)


NLL_GRAD = Kernel("nll_grad", ("r", "r", "w"), _grad_geometry,
                  {"CLASSES": "int", "INNER": "int", "IGNORE": "int"},
                  {"WEIGHTED": 0, "EACH": 0, "MEAN": 0, "ALONG": 0, "GROUP": 16})
KERNELS = (COUNT_TARGETS, CROSS_ENTROPY, CROSS_ENTROPY_NARROW, WEIGHTED_SUM, NLL_ROWS, NLL_GRAD)

PIECE = 4096                   # targets one item counts
NARROW = 31                    # columns: a longer row has vectors enough of its own
MOST_ROWS = 1024               # whose losses one item adds up, one after the other
MOST_NARROW_ROWS = 16 * 256    # or 16 side by side


def count_steps(target: Value, weight: Value | None, total: Value, *, classes: int, ignore: int,
                scratch: Callable[[Shape], Value], node: int = 0) -> list[Step]:
    """`total` [1] = the weights of all targets that count, summed."""
    pieces = ceil_div(target.size, PIECE)
    out = scratch((1, pieces, 1)) if pieces > 1 else total
    values = [v for v in (target, weight, out) if v is not None]
    count = COUNT_TARGETS.step(
        values, {"ROWS": target.size, "PIECE": PIECE, "PIECES": pieces, "CLASSES": classes,
                 "IGNORE": ignore}, {"WEIGHTED": len(values) - 2}, node=node,
        access=["r"] * (len(values) - 1) + ["w"])
    if pieces == 1:
        return [count]
    return [count, *fold_steps(out, total, (1, pieces, 1), "sum", scratch=scratch, node=node)]


def cross_entropy_steps(logits: Value, labels: Value, n: Value | None, loss: Value, dx: Value, *,
                        ignore: int, spec: DeviceSpec, scratch: Callable[[Shape], Value],
                        node: int = 0, flops: int = 0) -> list[Step]:
    """`loss` and the gradient `dx` of the rows of `logits`, over `n` [1] if there is one.

    A CPU gets some hundred items of many rows, others an item per row."""
    columns = logits.shape[-1]
    rows = logits.size // columns
    cpu = spec.kind == "cpu"
    narrow = cpu and 1 < columns <= NARROW and rows >= 16
    each = ceil_div(rows, 2 * MANY) if cpu else 1
    each = min(ceil_div(each, 16) * 16, MOST_NARROW_ROWS) if narrow else min(each, MOST_ROWS)
    items = ceil_div(rows, each)
    parts = scratch((items,))
    sizes = {"ROWS": rows, "COLUMNS": columns, "IGNORE": ignore, "EACH": each, "ITEMS": items}
    values = [v for v in (logits, labels, n, parts, dx) if v is not None]
    mean = {"MEAN": len(values) - 4}
    kernel, defines = (CROSS_ENTROPY_NARROW, {**mean, "COLUMNS": columns}) if narrow else \
        (CROSS_ENTROPY, mean)
    first = kernel.step(values, sizes, defines, node=node, flops=flops,
                        access=["r"] * (len(values) - 2) + ["w", "w"])
    return [first, *total_steps(parts, n, loss, scratch=scratch, node=node)]


def total_steps(rows: Value, n: Value | None, loss: Value, *, scratch: Callable[[Shape], Value],
                node: int = 0) -> list[Step]:
    """`loss` = sum of `rows`, over `n` [1] if there is one."""
    steps: list[Step] = []
    pieces = ceil_div(rows.size, PIECE)
    if pieces > 1:
        part = scratch((1,))
        steps = fold_steps(rows, part, (1, rows.size, 1), "sum", scratch=scratch, node=node)
        rows = part
    values = [v for v in (rows, n, loss) if v is not None]
    steps.append(WEIGHTED_SUM.step(values, {"COUNT": rows.size}, {"MEAN": len(values) - 2},
                                   node=node, flops=rows.size,
                                   access=["r"] * (len(values) - 1) + ["w"]))
    return steps


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(12)
    for width in (1, 15, 16, 17, 40):
        target = rng.integers(0, width, 5).astype("i4")
        target[1] = -100
        yield from _cross_entropy_cases(rng.normal(0, 2, (5, width)).astype("f4"), target)
    x = rng.normal(0, 2, (4, 17)).astype("f4")
    # A target outside the classes gives NaN in its row, and touches nothing else.
    yield from _cross_entropy_cases(x, np.array([3, 17, -1, 2**31 - 1], "i4"), "bad target ")
    for width in (2, 7, 16, 31):                     # 16 rows at a time, and one left over
        target = rng.integers(0, width, 49).astype("i4")
        target[3], target[20] = -100, width
        x49 = rng.normal(0, 2, (49, width)).astype("f4")
        yield from _cross_entropy_cases(x49, target)
        x49, target = x49.copy(), target.copy()
        x49[18] += 100                               # too large for a short cut
        x49[40, 0] = np.nan
        target[40] = -100
        yield from _cross_entropy_cases(x49, target, "large ")
    yield from _nll_cases(rng)
    for mean in (0, 1):
        n, rows = np.full(mean, 4, "f4"), x.reshape(-1)
        given = [rows, n, np.zeros(1, "f4")] if mean else [rows, np.zeros(1, "f4")]
        want = rows.astype("f8").sum() / (4 if mean else 1)
        yield one_case(f"weighted_sum {mean}", WEIGHTED_SUM, given, {"COUNT": rows.size},
                       {1 + mean: np.array([want])}, MEAN=mean)


def _hot(target: Array, classes: int) -> Array:
    """One-hot rows: zeros where ignored, NaN where there is no such class."""
    known = (target >= 0) & (target < classes)
    hot = np.where(known[..., None], np.eye(classes)[np.where(known, target, 0)], np.nan)
    return np.asarray(np.where((target == -100)[..., None], 0, hot))


def _cross_entropy_cases(x: Array, target: Array, name: str = "") -> Iterator[Case]:
    rows, width = x.shape
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    p, hot = e / e.sum(1, keepdims=True), _hot(target, width)
    used = (target != -100)[:, None]
    losses = np.where(used[:, 0], -(np.log(p) * hot).sum(1), 0)
    dx = np.where(used, p - hot, 0)
    for each in (1, 2):
        summed = np.add.reduceat(losses, range(0, rows, each))
        size = {"ROWS": rows, "COLUMNS": width, "IGNORE": -100, "EACH": each,
                "ITEMS": len(summed)}
        blank = [np.zeros(summed.shape, "f4"), np.zeros(x.shape, "f4")]
        yield one_case(f"cross_entropy {name}{rows}x{width} {each}", CROSS_ENTROPY,
                       [x, target, *blank], size, {2: summed, 3: dx})
        yield one_case(f"cross_entropy mean {name}{rows}x{width} {each}", CROSS_ENTROPY,
                       [x, target, np.full(1, 4, "f4"), *blank], size,
                       {3: summed, 4: dx / 4}, MEAN=1)
    if rows < 16:                                        # the other kernel is never given so few
        return
    summed = np.add.reduceat(losses, range(0, rows, 32))
    size = {"ROWS": rows, "IGNORE": -100, "EACH": 32, "ITEMS": len(summed)}
    blank = [np.zeros(summed.shape, "f4"), np.zeros(x.shape, "f4")]
    yield one_case(f"cross_entropy narrow {name}{rows}x{width}", CROSS_ENTROPY_NARROW,
                   [x, target, *blank], size, {2: summed, 3: dx}, COLUMNS=width)
    yield one_case(f"cross_entropy narrow mean {name}{rows}x{width}", CROSS_ENTROPY_NARROW,
                   [x, target, np.full(1, 4, "f4"), *blank], size, {3: summed, 4: dx / 4},
                   COLUMNS=width, MEAN=1)


def _nll_cases(rng: np.random.Generator) -> Iterator[Case]:
    for outer, classes, inner in ((5, 7, 1), (2, 3, 17)):
        x = rng.normal(size=(outer, classes, inner)).astype("f4")
        w = rng.uniform(0.5, 2, classes).astype("f4")
        target = rng.integers(0, classes, (outer, inner)).astype("i4")
        target[0, 0], target[-1, -1] = -100, classes
        hot = np.moveaxis(_hot(target, classes), -1, 1)
        size = {"OUTER": outer, "COUNT": outer * inner, "CLASSES": classes, "INNER": inner,
                "IGNORE": -100, "ROWS": outer * inner, "PIECE": 4096, "PIECES": 1}
        g, one = rng.normal(size=target.shape).astype("f4"), np.full(1, 4, "f4")
        name = f"{outer} {classes} {inner}"
        yield one_case(f"nll_rows {name}", NLL_ROWS, [x, target, g], size, {2: -(x * hot).sum(1)})
        yield one_case(f"nll_rows weighted {name}", NLL_ROWS, [x, target, w, g], size,
                       {3: -(x * hot * w[:, None]).sum(1)}, WEIGHTED=1)
        along = int(inner > 1)
        yield one_case(f"nll_grad {name}", NLL_GRAD, [g, target, w, x], size,
                       {3: -hot * w[:, None] * g[:, None]}, WEIGHTED=1, EACH=1, ALONG=along)
        yield one_case(f"nll_grad mean {name}", NLL_GRAD, [one, target, one, x], size, {3: -hot},
                       MEAN=1, ALONG=along)
        good = np.where(target == classes, 0, target).astype("i4")
        used = good != -100
        yield one_case(f"count_targets {name}", COUNT_TARGETS, [good, one], size,
                       {1: np.array([used.sum()])})
        yield one_case(f"count_targets weighted {name}", COUNT_TARGETS, [good, w, one], size,
                       {2: np.array([w[np.where(used, good, 0)][used].astype("f8").sum()])},
                       WEIGHTED=1)
