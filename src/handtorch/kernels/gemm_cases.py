"""Cases of the matrix products: every kernel and form, at sizes around the edges of its tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from handtorch.graph.node import Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.gemm_specs import (
    DOT,
    NAIVE,
    PACK_B,
    REGISTER,
    TILED,
    TILED_VECTOR,
    VECTOR,
    Sgd,
    tile_width,
)
from handtorch.kernels.spec import Kernel, ceil_div, number

Sizes = tuple[int, int, int]
_A, _B, _C, _BIAS, _MASK, _PANELS = range(6)


def reference(a: Array, b: Array, bias: Array | None = None, relu: bool = False,
              mask: Array | None = None) -> Array:
    """f(a b) in float64, as the kernels define f."""
    out: Array = a.astype("f8") @ b.astype("f8")
    out = out if bias is None else out + bias
    out = np.maximum(out, 0.0) if relu else out
    return out if mask is None else out * (mask > 0)


def packed(b: Array, width: int) -> Array:
    """What `pack_b` makes of `b` [K, N]."""
    k, n = b.shape
    starts = [min(p * width, n - width) for p in range(ceil_div(n, width))]
    return np.stack([b[:, j:j + width] for j in starts]).reshape(-1, k, width)


def cases() -> Iterator[Case]:
    yield from _ladder()
    yield from _register()
    yield from _updates()
    yield from _dot()
    yield from _pack()


def _ladder() -> Iterator[Case]:
    """The study's kernels know no forms; one size across an edge, one inside a tile, one alone."""
    vector = [(VECTOR, {"V": v}, ((5, 2 * v + 1, 31), (4, v, 7), (1, 1, 1))) for v in (2, 4, 8, 16)]
    for kernel, macros, sizes in (
            (NAIVE, {}, ((5, 17, 31), (1, 1, 1))), *vector,
            (TILED, {"TS": 16}, ((17, 15, 17), (16, 16, 16), (1, 1, 1))),
            (TILED, {"TS": 8}, ((7, 9, 23),)),
            (TILED_VECTOR, {"TS": 16, "V": 2}, ((17, 15, 17),)),
            (TILED_VECTOR, {"TS": 32, "V": 4}, ((7, 33, 31), (1, 1, 1))),
            (TILED_VECTOR, {"TS": 32, "V": 8}, ((3, 31, 33),)),
            (TILED_VECTOR, {"TS": 32, "V": 16}, ((3, 17, 37),))):
        for size in sizes:
            yield _product(kernel, macros, size)


def _register() -> Iterator[Case]:
    bias, act, mask, ta, pb = ({m: 1} for m in ("BIAS", "ACT", "MASK", "TA", "PB"))
    wide = {"R": 6, "NV": 4, "V": 16, "KU": 4}
    small = {"R": 4, "NV": 2, "V": 4, "KU": 2}
    for macros, size in (
            (wide, (7, 65, 9)), (wide, (6, 64, 11)), (wide, (5, 127, 5)),
            ({**wide, **ta}, (7, 67, 7)),
            ({**wide, **pb}, (7, 65, 9)), ({**wide, **pb, **ta, **bias, **act}, (5, 66, 7)),
            ({**small, **bias}, (5, 9, 31)), ({**small, **act}, (3, 8, 30)),
            ({**small, **mask}, (4, 15, 29)), ({**small, **bias, **act, **mask}, (9, 13, 17)),
            ({**small, **ta, **mask}, (11, 11, 13)), ({**small, **pb, **mask}, (9, 17, 13)),
            ({**small, "WGX": 16, "WGY": 8, "KU": 4}, (65, 9, 7)),
            ({**small, "WGX": 16, "WGY": 8, **pb, **ta, **bias, **act}, (13, 67, 5)),
            ({"R": 1, "NV": 1, "V": 1, "KU": 1}, (1, 1, 1)),
            ({"R": 1, "NV": 1, "V": 1, "KU": 1, **bias, **act, **mask}, (3, 5, 7)),
            ({"R": 12, "NV": 2, "V": 16, "KU": 1, **ta}, (13, 33, 7)),
            ({"R": 8, "NV": 1, "V": 2, "KU": 2, **bias}, (17, 3, 19)),
            ({"R": 8, "NV": 1, "V": 8, "KU": 4}, (9, 10, 31)),
            ({**small, **ta, "SPLIT": 4}, (9, 13, 11)), ({**small, **ta, "SPLIT": 8}, (4, 8, 16)),
            ({**small, "SPLIT": 16, "WGX": 4}, (5, 9, 15)),
            ({**wide, **ta, **pb, "SPLIT": 2}, (7, 65, 5))):
        yield _product(REGISTER, macros, size)


def _updates() -> Iterator[Case]:
    """A product that is a gradient and updates its weight, in whole vectors and at the edge."""
    wide = {"R": 6, "NV": 4, "V": 16, "KU": 4, "TA": 1}
    small = {"R": 4, "NV": 2, "V": 4, "KU": 2}
    one = {"R": 1, "NV": 1, "V": 1, "KU": 1, "TA": 1}
    for macros, size, momentum, nesterov in (
            (wide, (7, 129, 5), 0.9, False), ({**wide, "PB": 1}, (13, 67, 3), 0.9, True),
            (small, (5, 13, 9), 0.0, False),
            ({**small, "WGX": 16, "WGY": 8}, (65, 9, 7), 0.5, False),
            (one, (3, 2, 4), 0.9, False)):
        yield _update(macros, size, momentum, nesterov)


def _update(macros: Mapping[str, int], size: Sizes, momentum: float, nesterov: bool) -> Case:
    m, n, k = size
    rng = np.random.default_rng(m * n * k)
    a, b, w, moment = (rng.normal(size=s).astype("f4") for s in ((m, k), (k, n), (m, n), (m, n)))
    rate, decay = np.float32(0.1).reshape(1), 0.01
    d = decay * w.astype("f8") - reference(a, b)
    moved = momentum * moment + d
    by = d + momentum * moved if nesterov else moved
    want = {_C: w - 0.1 * by, **({_MASK: moved} if momentum else {})}
    width = tile_width({**REGISTER.defaults, **macros})
    given = {_A: a.T if macros.get("TA") else a, _B: packed(b, width) if macros.get("PB") else b,
             _C: w, _BIAS: rate, **({_MASK: moment} if momentum else {})}
    given = {i: np.ascontiguousarray(x) for i, x in given.items()}
    values = {i: Value(i, x.shape) for i, x in given.items()}
    rule = Sgd(values[_BIAS], values.get(_MASK), momentum, decay, True, nesterov)
    step = REGISTER.step(list(values.values()), {"M": m, "N": n, "K": k},
                         {**macros, **rule.defines()}, flops=2 * m * n * k,
                         access=("r", "r", "rw", *rule.operands().values()))
    told = _name(REGISTER, macros, size)
    return Case(f"{told} sgd {momentum}{' nesterov' * nesterov}", (step,), given, want)


def _dot() -> Iterator[Case]:
    for macros, size in (
            ({"V": 16}, (5, 7, 37)), ({"V": 16}, (4, 4, 16)), ({"V": 16}, (3, 5, 15)),
            ({"V": 4, "BIAS": 1, "ACT": 1}, (7, 5, 31)), ({"V": 4, "MASK": 1}, (5, 9, 17)),
            ({"V": 8, "R": 2, "BIAS": 1, "ACT": 1, "MASK": 1}, (5, 3, 25)),
            ({"V": 8, "R": 1}, (1, 1, 1)), ({"V": 4, "R": 1, "MASK": 1}, (3, 2, 5)),
            ({"V": 4, "WGX": 8, "WGY": 8, "BIAS": 1}, (33, 5, 11))):
        yield _product(DOT, macros, size)


def _pack() -> Iterator[Case]:
    rng = np.random.default_rng(7)
    for macros, (n, k) in (
            ({"W": 64, "V": 16}, (129, 17)), ({"W": 8, "V": 4}, (8, 16)),
            ({"W": 8, "V": 8}, (13, 1)),
            ({"W": 8, "V": 4, "TB": 1}, (17, 33)), ({"W": 64, "V": 16, "TB": 1}, (67, 15)),
            ({"W": 32, "V": 16, "TB": 1}, (40, 49)), ({"W": 16, "V": 16, "TB": 1}, (17, 38)),
            ({"W": 16, "V": 16, "TB": 1}, (16, 1)), ({"W": 16, "V": 4, "TB": 1, "KB": 4}, (17, 21)),
            ({"W": 1, "V": 1}, (1, 1)), ({"W": 8, "V": 4, "WGY": 4, "KB": 4}, (9, 21))):
        turned = bool(macros.get("TB", 0))
        b = rng.normal(size=(k, n)).astype("f4")
        want = packed(b, macros["W"])
        given = np.ascontiguousarray(b.T) if turned else b
        values = (Value(_B, given.shape), Value(_PANELS, want.shape))
        step = PACK_B.step(values, {"N": n, "K": k}, macros)
        yield Case(_name(PACK_B, macros, (n, k)), (step,), {_B: given}, {_PANELS: want}, 1e-12)


def _product(kernel: Kernel, macros: Mapping[str, int], size: Sizes) -> Case:
    m, n, k = size
    rng = np.random.default_rng(m * n * k)
    a, b = (rng.normal(size=s).astype("f4") for s in ((m, k), (k, n)))
    bias = rng.normal(size=n).astype("f4") if macros.get("BIAS") else None
    mask = rng.normal(size=(m, n)).astype("f4") if macros.get("MASK") else None
    if mask is not None:
        mask.flat[0] = 0.0                  # a ReLU's output is exactly 0 where it was cut
    depth = macros.get("SPLIT", 0)
    parts = [reference(a[:, at:at + (depth or k)], b[at:at + (depth or k)], bias,
                       bool(macros.get("ACT")), mask) for at in range(0, k, depth or k)]
    want = np.stack(parts) if depth else parts[0]
    given = {_A: a.T if macros.get("TA") else a, _B: b.T if kernel is DOT else b}
    if macros.get("PB"):
        given[_B] = packed(b, tile_width({**kernel.defaults, **macros}))
    given |= {i: x for i, x in ((_BIAS, bias), (_MASK, mask)) if x is not None}
    given = {i: np.ascontiguousarray(x) for i, x in given.items()}
    order = [_A, _B, _C, *(i for i in (_BIAS, _MASK) if i in given)]
    values = [Value(i, want.shape if i == _C else given[i].shape) for i in order]
    step = kernel.step(values, {"M": m, "N": n, "K": k}, macros, flops=2 * m * n * k,
                       access=("r", "r", "w", *("r" for _ in order[3:])))
    return Case(_name(kernel, macros, size), (step,), given, {_C: want})


def _name(kernel: Kernel, macros: Mapping[str, int], size: tuple[int, ...]) -> str:
    told = " ".join(f"{k}{number(macros, k)}" for k in macros)
    return " ".join(filter(None, (kernel.name, told, "x".join(map(str, size)))))
