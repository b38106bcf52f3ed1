"""Class losses: specs, how their sums are split, and cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
                       {"ROWS": "int", "COLUMNS": "int", "IGNORE": "int", "EACH": "int",
                        "COUNTED": "int", "WAITING": "int"}, {"MEAN": 0})
CROSS_ENTROPY_NARROW = Kernel("cross_entropy_narrow", ("r", "r", "w", "w"), one_each("ITEMS"),
                              {"ROWS": "int", "IGNORE": "int", "EACH": "int",
                               "COUNTED": "int"}, {"MEAN": 0, "COLUMNS": 10, "MORE": 0})
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
NLL_GRAD_ROWS = Kernel("nll_grad_rows", ("r", "r", "w"), one_each("ITEMS", "PIECES"),
                       {"OUTER": "int", "CLASSES": "int", "INNER": "int", "IGNORE": "int",
                        "EACH": "int", "PIECE": "int"},
                       {"WEIGHTED": 0, "ONE_EACH": 0, "MEAN": 0})
KERNELS = (COUNT_TARGETS, CROSS_ENTROPY, CROSS_ENTROPY_NARROW, WEIGHTED_SUM, NLL_ROWS, NLL_GRAD,
           NLL_GRAD_ROWS)

PIECE = 4096                   # targets one item counts
FEW_TARGETS = 2048             # each item of a CPU counts them for itself sooner than one for all
NARROW = 31                    # columns: a longer row has vectors enough of its own
WAITING_SIZE = 1 << 22         # of logits in some cache; beyond it memory is what takes the time
ONE_ITEM = 8192                # numbers that one core is done with before another launch starts
MOST_ROWS = 1024               # whose losses one item adds up, one after the other
MOST_NARROW_ROWS = 16 * 256    # or 16 side by side


def count_steps(target: Value, weight: Value | None, total: Value, *, classes: int, ignore: int,
                scratch: Callable[[Shape], Value], node: int = 0) -> list[Step]:
    """`total` [1] = the weights of all targets that count, summed."""
    pieces = ceil_div(target.size, PIECE)
    out = scratch((1, pieces, 1)) if pieces > 1 else total
    count = _count_step(target, weight, out, PIECE, classes, ignore, node)
    if pieces == 1:
        return [count]
    return [count, *fold_steps(out, total, (1, pieces, 1), "sum", scratch=scratch, node=node)]


def _count_step(target: Value, weight: Value | None, out: Value, piece: int, classes: int,
                ignore: int, node: int) -> Step:
    values = [v for v in (target, weight, out) if v is not None]
    return COUNT_TARGETS.step(
        values, {"ROWS": target.size, "PIECE": piece, "PIECES": out.size, "CLASSES": classes,
                 "IGNORE": ignore}, {"WEIGHTED": len(values) - 2}, node=node,
        access=["r"] * (len(values) - 1) + ["w"])


def cross_entropy_steps(logits: Value, labels: Value, loss: Value, dx: Value, *, mean: bool,
                        ignore: int, spec: DeviceSpec, scratch: Callable[[Shape], Value],
                        node: int = 0, flops: int = 0) -> list[Step]:
    """`loss` and the gradient `dx` of the rows of `logits`, over how many count if `mean`.

    A CPU gets some items of many rows, a single one for few; others an item per row."""
    columns = logits.shape[-1]
    rows = logits.size // columns
    cpu = spec.kind == "cpu"
    narrow = cpu and 1 < columns <= NARROW and rows >= 16
    each = _rows_each(rows, columns, narrow) if cpu else 1
    items = ceil_div(rows, each)
    form, n, steps = _counted(labels, columns, mean, ignore, cpu, scratch, node)
    parts = scratch((items,)) if items > 1 else loss
    sizes = {"ROWS": rows, "COLUMNS": columns, "IGNORE": ignore, "EACH": each, "ITEMS": items,
             "COUNTED": n.size if n else 0,
             "WAITING": int(logits.size <= WAITING_SIZE)}
    values = [v for v in (logits, labels, n, parts, dx) if v is not None]
    kernel, defines = (CROSS_ENTROPY_NARROW, _narrow(columns)) if narrow else (CROSS_ENTROPY, {})
    steps.append(kernel.step(values, sizes, {"MEAN": form, **defines}, node=node, flops=flops,
                             access=["r"] * (len(values) - 2) + ["w", "w"]))
    if items > 1:
        steps += total_steps(parts, None, loss, scratch=scratch, node=node)
    return steps


def _rows_each(rows: int, columns: int, narrow: bool) -> int:
    """Rows of an item of a CPU; all of them where a second launch would cost more."""
    if rows <= MOST_ROWS and rows * columns <= ONE_ITEM:
        return rows if not narrow else ceil_div(rows, 16) * 16
    each = ceil_div(rows, MANY if rows * columns <= WAITING_SIZE else 2 * MANY)
    if not narrow:
        return min(each, MOST_ROWS)
    blocks = 64 if each > 64 else 16
    return min(ceil_div(each, blocks) * blocks, MOST_NARROW_ROWS)


def _narrow(columns: int) -> dict[str, int]:
    return {"COLUMNS": columns, "MORE": max(columns - 16, 0)}


def _counted(labels: Value, classes: int, mean: bool, ignore: int, cpu: bool,
             scratch: Callable[[Shape], Value], node: int) -> tuple[int, Value | None, list[Step]]:
    """The macro MEAN, the numbers whose sum is that of the targets that count, their steps."""
    if not mean:
        return 0, None, []
    if not cpu:
        n = scratch((1,))
        return 1, n, count_steps(labels, None, n, classes=classes, ignore=ignore,
                                 scratch=scratch, node=node)
    if labels.size <= FEW_TARGETS:
        return 2, None, []
    piece = max(PIECE, ceil_div(ceil_div(labels.size, MANY), 16) * 16)
    n = scratch((ceil_div(labels.size, piece),))
    return 1, n, [_count_step(labels, None, n, piece, classes, ignore, node)]


def nll_grad_step(values: Sequence[Value], sizes: dict[str, int], *, weighted: int, mean: int,
                  each: bool, cpu: bool, node: int = 0) -> Step:
    """The gradient of the log-probabilities, the last of `values`; a CPU writes it in order."""
    access = ["r"] * (len(values) - 1) + ["w"]
    defines = {"WEIGHTED": weighted, "MEAN": mean}
    if not cpu:
        return NLL_GRAD.step(values, sizes, {**defines, "EACH": int(each),
                                             "ALONG": int(sizes["INNER"] > 1)},
                             node=node, access=access)
    return NLL_GRAD_ROWS.step(values, {**sizes, **_nll_pieces(sizes["OUTER"], sizes["CLASSES"])},
                              {**defines, "ONE_EACH": int(each)}, node=node, access=access)


def _nll_pieces(outer: int, classes: int) -> dict[str, int]:
    """Enough items for every core: of several rows, or of a part of one's classes."""
    each = ceil_div(outer, MANY)
    piece = ceil_div(classes, min(ceil_div(MANY, outer), classes))
    return {"EACH": each, "ITEMS": ceil_div(outer, each),
            "PIECE": piece, "PIECES": ceil_div(classes, piece)}


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
    for width in (1, 15, 16, 17, 40, 150):
        target = rng.integers(0, width, 5).astype("i4")
        target[1] = -100
        x5 = rng.normal(0, 2, (5, width)).astype("f4")
        yield from _cross_entropy_cases(x5, target)
        x5 = x5 + 100 * (np.arange(5) == 3)[:, None].astype("f4")        # while a row waits
        yield from _cross_entropy_cases(x5, target, "large ")
        if width > 1:                                # what a short cut cannot hold, and cannot miss
            far = x5.copy()
            far[0], far[0, target[0]], far[2, target[2] - 1] = 20, -64, -np.inf
            far[4] += 1e6
            yield from _cross_entropy_cases(far, target, "far ")
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
    target = rng.integers(0, 5, 150).astype("i4")        # more than four blocks
    x150 = rng.normal(0, 2, (150, 5)).astype("f4")
    yield from _cross_entropy_cases(x150, target, each=96)
    apart = x150.copy()
    apart[16:32] = np.where(np.arange(5) == target[16:32, None], -19, 19)    # hardly a chance
    yield from _cross_entropy_cases(apart, target, "apart ", each=96)
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


def _cross_entropy_cases(x: Array, target: Array, name: str = "", each: int = 32
                         ) -> Iterator[Case]:
    rows, width = x.shape
    below = x.astype("f8") - x.max(1, keepdims=True)
    logs = below - np.log(np.exp(below).sum(1, keepdims=True))
    p, hot = np.exp(logs), _hot(target, width)
    used = (target != -100)[:, None]
    losses = np.where(used[:, 0], -(np.where(hot == 0, 0, logs) * hot).sum(1), 0)
    dx = np.where(used, p - hot, 0)
    for form, scale in ((0, 1), (1, 4), (2, used.sum())):
        n = [np.array([1, 3], "f4")] if form == 1 else []
        at = 2 + len(n)
        for many in (1, 2, each):
            summed = np.add.reduceat(losses, range(0, rows, many)) / scale
            size = {"ROWS": rows, "COLUMNS": width, "IGNORE": -100, "EACH": many,
                    "ITEMS": len(summed), "COUNTED": 2 * len(n), "WAITING": int(form != 1)}
            given = [x, target, *n, np.zeros(summed.shape, "f4"), np.zeros(x.shape, "f4")]
            want = {at: summed, at + 1: dx / scale}
            shape = f"{name}{rows}x{width} {many}"
            if many < each:
                yield one_case(f"cross_entropy {form} {shape}", CROSS_ENTROPY, given, size, want,
                               MEAN=form)
            elif rows >= 16:                             # the other kernel is never given fewer
                yield one_case(f"cross_entropy narrow {form} {shape}", CROSS_ENTROPY_NARROW, given,
                               size, want, MEAN=form, **_narrow(width))


def _nll_cases(rng: np.random.Generator) -> Iterator[Case]:
    for outer, classes, inner in ((5, 7, 1), (2, 3, 17), (3, 4, 130)):
        x = rng.normal(size=(outer, classes, inner)).astype("f4")
        w = rng.uniform(0.5, 2, classes).astype("f4")
        target = rng.integers(0, classes, (outer, inner)).astype("i4")
        target[0, 0], target[-1, -1] = -100, classes
        hot = np.moveaxis(_hot(target, classes), -1, 1)
        size = {"OUTER": outer, "COUNT": outer * inner, "CLASSES": classes, "INNER": inner,
                "IGNORE": -100, "ROWS": outer * inner}
        pieces = {**size, "PIECE": 4096, "PIECES": 1}
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
        for each, piece in ((1, 2), (2, classes)):
            size |= {"EACH": each, "ITEMS": ceil_div(outer, each), "PIECE": piece,
                     "PIECES": ceil_div(classes, piece)}
            yield one_case(f"nll_grad_rows {name} {each}", NLL_GRAD_ROWS, [g, target, w, x], size,
                           {3: -hot * w[:, None] * g[:, None]}, WEIGHTED=1, ONE_EACH=1)
            yield one_case(f"nll_grad_rows mean {name} {each}", NLL_GRAD_ROWS,
                           [one, target, one, x], size, {3: -hot}, MEAN=1)
        good = np.where(target == classes, 0, target).astype("i4")
        used = good != -100
        yield one_case(f"count_targets {name}", COUNT_TARGETS, [good, one], pieces,
                       {1: np.array([used.sum()])})
        yield one_case(f"count_targets weighted {name}", COUNT_TARGETS, [good, w, one], pieces,
                       {2: np.array([w[np.where(used, good, 0)][used].astype("f8").sum()])},
                       WEIGHTED=1)
