"""SGD, and the plain sums that convolutions and pooling end with: specs and cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import MANY, grouped, one_case, one_each
from handtorch.kernels.spec import (
    Defines,
    Geometry,
    Kernel,
    Sizes,
    ceil_div,
    number,
    round_up,
)

LEAST_SUM_RUN = 64             # floats of an item of a sum on a CPU


def _columns(defines: Defines, sizes: Sizes) -> Geometry:
    items = ceil_div(int(sizes["INNER"]), int(sizes["RUN"]))
    group = number(defines, "GROUP")
    return (round_up(items, group), int(sizes["OUTER"])), (group, 1)


SUM_AXIS = Kernel("sum_axis", ("r", "w"), _columns,
                  {"REDUCE": "int", "INNER": "int", "RUN": "int"}, {"GROUP": 16, "V": 1})


def sum_axis_step(x: Value, y: Value, spec: DeviceSpec, node: int) -> Step:
    """y = the sum over the first axis of x. A CPU reads runs of whole vectors: a group of its own
    for every few floats would cost more than their sum."""
    inner = y.size
    whole = spec.kind == "cpu"
    run = round_up(max(ceil_div(inner, MANY), LEAST_SUM_RUN), 16) if whole else 1
    macros = {"GROUP": 1, "V": 16} if whole else {}
    return SUM_AXIS.step((x, y), {"OUTER": 1, "REDUCE": x.shape[0], "INNER": inner, "RUN": run},
                         macros, node=node)


SUM_ROW = Kernel("sum_row", ("r", "w"), one_each("OUTER"), {"REDUCE": "int", "SCALE": "float"})
SGD = Kernel("sgd", ("r", "r", "rw", "rw"), grouped("COUNT"),
             {"COUNT": "int", "SIGN": "float", "DECAY": "float", "MOMENTUM": "float"},
             {"GROUP": 16, "HAS_MOMENTUM": 1, "NESTEROV": 0})
KERNELS = (SUM_AXIS, SUM_ROW, SGD)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(11)
    rate = np.float32(0.1).reshape(1)

    def normal(*shape: int) -> Array:
        return rng.normal(0, 2, shape).astype("f4")

    for inner, run in ((5, 3), (16, 16), (70, 32)):
        x = normal(3, 7, inner)
        yield one_case(f"sum_axis {inner} in runs of {run}", SUM_AXIS,
                       [x, np.zeros((3, inner), "f4")],
                       {"OUTER": 3, "REDUCE": 7, "INNER": inner, "RUN": run},
                       {1: x.astype("f8").sum(1)}, GROUP=1, V=16)
    for inner in (1, 16, 17):
        x = normal(3, 7, inner)
        yield one_case(f"sum_axis {inner}", SUM_AXIS, [x, np.zeros((3, inner), "f4")],
                       {"OUTER": 3, "REDUCE": 7, "INNER": inner, "RUN": 1},
                       {1: x.astype("f8").sum(1)})
        yield one_case(f"sum_row {inner}", SUM_ROW, [x[0].copy(), np.zeros(7, "f4")],
                       {"OUTER": 7, "REDUCE": inner, "SCALE": 0.5},
                       {1: 0.5 * x[0].astype("f8").sum(1)})
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
            yield one_case(f"sgd momentum {count} {nesterov}", SGD, [g, rate, w, m],
                           {**plain, "MOMENTUM": 0.9}, {2: new, 3: moved}, NESTEROV=nesterov)
