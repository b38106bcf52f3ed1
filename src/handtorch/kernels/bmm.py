"""Batched matrix products: many small ones in one launch; `bmm_tiles` chooses how."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.case import Case
from handtorch.kernels.gemm_specs import DOT_COLUMNS, tile_width
from handtorch.kernels.move import Axis, move_step
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number
from handtorch.kernels.variant import chosen_variant

_SIZES = {"M": "int", "N": "int", "K": "int", "SA": "uint", "SB": "uint"}


def _tiles(width: Callable[[Defines], int]) -> Callable[[Defines, Sizes], Geometry]:
    """Items over row tiles, column tiles and the batch."""
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        x, y = number(defines, "WGX"), number(defines, "WGY")
        rows = ceil_div(int(sizes["M"]), number(defines, "R"))
        columns = ceil_div(int(sizes["N"]), width(defines))
        return (ceil_div(rows, x) * x, ceil_div(columns, y) * y, int(sizes["BATCH"])), (x, y, 1)
    return geometry


BMM = Kernel("bmm", ("r", "r", "w"), _tiles(tile_width), _SIZES,
             {"R": 4, "NV": 2, "V": 4, "TA": 0, "WGX": 1, "WGY": 1},
             space={"R": (1, 2, 4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (1, 2, 4, 8, 16)})
BMM_DOT = Kernel("bmm_dot", ("r", "r", "w"), _tiles(lambda _: DOT_COLUMNS), _SIZES,
                 {"R": 4, "V": 4, "WGX": 1, "WGY": 1},
                 space={"R": (1, 2, 4, 6), "V": (4, 8, 16)})
KERNELS = (BMM, BMM_DOT)


def bmm_steps(a: Value, b: Value, c: Value, *, ta: bool, tb: bool, spec: DeviceSpec,
              new_value: Callable[[Shape], Value], node: int = 0) -> tuple[Step, ...]:
    """The launches that leave op(a[i]) op(b[i]) in `c[i]`: one, or two when B is turned first.

    `a` or `b` may hold a single matrix for the whole batch. `new_value` is asked for scratch
    space, alive between the two launches only."""
    batch, m, n = c.shape
    k = a.shape[1] if ta else a.shape[2]
    variant = chosen_variant(Batch(batch, m, n, k, ta, tb, a.shape[0] == 1 < batch,
                                   b.shape[0] == 1 < batch), spec)
    before: tuple[Step, ...] = ()
    if variant.form == "bmm_turned":
        turned = new_value((b.shape[0], k, n))
        axes = (Axis(b.shape[0], n * k, n * k), Axis(k, 1, n), Axis(n, k, 1))
        before, b = (move_step(b, turned, axes, node=node),), turned
    kernel, defines = (BMM_DOT if variant.form == "bmm_dot" else BMM), dict(variant.defines)
    if kernel is BMM:
        defines["TA"] = int(ta)
    sizes = {"M": m, "N": n, "K": k, "BATCH": batch, "SA": m * k if a.shape[0] > 1 else 0,
             "SB": k * n if b.shape[0] > 1 else 0}
    return (*before, kernel.step((a, b, c), sizes, defines, node=node,
                                 flops=2 * batch * m * n * k))


def cases() -> Iterator[Case]:
    """Both kernels at sizes around their tiles, and one matrix for the whole batch."""
    rng = np.random.default_rng(9)
    wide, thin = {"R": 6, "NV": 2, "V": 16}, {"R": 1, "NV": 1, "V": 1}
    for kernel, defines, (m, n, k) in (
            (BMM, {}, (5, 9, 7)), (BMM, {"TA": 1}, (4, 8, 3)), (BMM, wide, (7, 33, 5)),
            (BMM, {**wide, "TA": 1}, (5, 47, 2)), (BMM, thin, (1, 1, 1)), (BMM, thin, (3, 2, 5)),
            (BMM, {"WGX": 8, "WGY": 4}, (9, 19, 3)),
            (BMM_DOT, {}, (5, 6, 9)), (BMM_DOT, {"V": 16}, (4, 4, 35)), (BMM_DOT, {}, (1, 1, 1)),
            (BMM_DOT, {"V": 8, "R": 1, "WGX": 8, "WGY": 4}, (3, 7, 17))):
        for shared in ("", "A", "B"):
            a = rng.normal(size=(1 if shared == "A" else 2, m, k)).astype("f4")
            b = rng.normal(size=(1 if shared == "B" else 2, k, n)).astype("f4")
            given = {0: np.ascontiguousarray(a.swapaxes(1, 2)) if defines.get("TA") else a,
                     1: np.ascontiguousarray(b.swapaxes(1, 2)) if kernel is BMM_DOT else b}
            want = a.astype("f8") @ b.astype("f8")
            sizes = {"M": m, "N": n, "K": k, "BATCH": 2, "SA": 0 if shared == "A" else m * k,
                     "SB": 0 if shared == "B" else k * n}
            step = kernel.step([Value(0, given[0].shape), Value(1, given[1].shape),
                                Value(2, want.shape)], sizes, defines)
            told = " ".join(f"{key}{v}" for key, v in defines.items())
            name = f"{kernel.name} {told} {m}x{n}x{k} {shared and f'one {shared}'}"
            yield Case(" ".join(name.split()), (step,), given, {2: want})
    yield _both_turned(rng)


def _both_turned(rng: np.random.Generator) -> Case:
    a, b = (rng.normal(size=s).astype("f4") for s in ((2, 5, 3), (2, 7, 5)))
    want = a.swapaxes(1, 2).astype("f8") @ b.swapaxes(1, 2)
    steps = bmm_steps(Value(0, a.shape), Value(1, b.shape), Value(2, want.shape), ta=True, tb=True,
                      spec=GENERIC, new_value=lambda shape: Value(3, shape))
    return Case("bmm of two transposed", steps, {0: a, 1: b}, {2: want})
