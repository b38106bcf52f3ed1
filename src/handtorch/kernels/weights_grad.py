"""Gradients of weights that share a factor: D^T X for one or two X, and the sums of D's columns.

The weights of a recurrent layer are few, and D and X are long: as products of their own each would
read D again, and a narrow X fills no tile. Here D is read once, its columns fill the vectors, and X
may be of any width. The numbers are in `tuned/rnn.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Case
from handtorch.kernels.rnn_loop import WeightsTile, tuning_for
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div

_SIZES = {"M": "int", "N0": "int", "N1": "int"}


def _parts(_: Defines, sizes: Sizes) -> Geometry:
    return (ceil_div(int(sizes["K"]), int(sizes["ROWS"])),), (1,)


def _rows(_: Defines, sizes: Sizes) -> Geometry:
    return (int(sizes["ROWS"]),), (1,)


GRAD = Kernel("weights_grad", (), _parts, {"K": "int", **_SIZES, "ROWS": "int"},
              {"COUNT": 2, "SUMS": 1, "J": 4, "MV": 2, "V": 4, "CHUNK": 32})
FOLD = Kernel("weights_fold", (), _rows, {"PARTS": "int", **_SIZES},
              {"COUNT": 2, "SUMS": 1, "V": 4})
KERNELS = (GRAD, FOLD)


def tile_for(d: Value, xs: Sequence[Value], spec: DeviceSpec) -> WeightsTile | None:
    """How the device does it, if that is better than products of their own."""
    tile, (_, m) = tuning_for(spec).weights, d.shape
    columns = [x.shape[1] for x in xs]
    if tile is None or m % (tile.vectors * tile.width) or m * sum(columns) > tile.most:
        return None
    return tile if min(columns) >= min(tile.rows) else None


def weights_steps(d: Value, xs: Sequence[Value], grads: Sequence[Value], sums: Value | None, *,
                  tile: WeightsTile, units: int, node: int,
                  scratch: Callable[[Shape], Value]) -> tuple[Step, ...]:
    """The launches that leave d^T x in `grads`, for each of one or two `xs`, and the sums of d's
    columns in `sums`: one for all products, in parts, and one that adds the parts up."""
    (k, m), columns = d.shape, [x.shape[1] for x in xs]
    assert all(x.shape[0] == k for x in xs) and len(xs) in (1, 2), f"{d} {xs}"
    more = () if sums is None else (sums,)
    high = min((j for j in tile.rows if j <= min(columns)),
               key=lambda j: sum(ceil_div(n, j) * j for n in columns))
    rows = max(ceil_div(k, tile.parts * units), tile.chunk)
    parts = scratch((ceil_div(k, rows), sum(columns) + len(more), m))
    sizes = {"K": k, "M": m, "N0": columns[0], "N1": sum(columns[1:]), "ROWS": rows}
    forms = {"COUNT": len(xs), "SUMS": len(more)}
    first = GRAD.step((d, *xs, parts), sizes, {
        **forms, "J": high, "MV": tile.vectors, "V": tile.width, "CHUNK": tile.chunk},
        node=node, access=("r",) * (1 + len(xs)) + ("w",), flops=2 * k * m * sum(columns))
    folded = {**sizes, "PARTS": parts.shape[0], "ROWS": parts.shape[1]}
    return first, FOLD.step((parts, *grads, *more), folded, {**forms, "V": tile.width}, node=node,
                            access=("r",) + ("w",) * (len(xs) + len(more)))


def cases() -> Iterator[Case]:
    """Columns on both sides of a tile, one part and several, the last of them short."""
    rng = np.random.default_rng(6)
    for tile, (k, m, *columns), sums in (
            (WeightsTile(4, 2, (4,), 3, 4, 0), (11, 16, 9, 4), True),
            (WeightsTile(8, 2, (4, 6), 32, 1, 0), (33, 32, 6), False),
            (WeightsTile(4, 1, (1,), 2, 2, 0), (1, 4, 1, 2), True)):
        fresh = count()

        def value(shape: Shape, fresh: Iterator[int] = fresh) -> Value:
            return Value(next(fresh), tuple(shape))
        d, xs = value((k, m)), [value((k, n)) for n in columns]
        grads, total = [value((m, n)) for n in columns], value((m,)) if sums else None
        given = {v.id: rng.normal(0, 1, v.shape).astype("f4") for v in (d, *xs)}
        exact = {i: a.astype("f8") for i, a in given.items()}
        want = {g.id: exact[d.id].T @ exact[x.id] for g, x in zip(grads, xs, strict=True)}
        want |= {total.id: exact[d.id].sum(0)} if total else {}
        steps = weights_steps(d, xs, grads, total, tile=tile, units=1, node=0, scratch=value)
        yield Case(f"weights_grad {k}x{m} {columns}", steps, given, want)
