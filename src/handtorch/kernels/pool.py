"""Pooling: specs and cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from handtorch.graph.node import Shape, Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.spec import (
    Defines,
    Geometry,
    Kernel,
    Sizes,
    ceil_div,
    dividing_width,
    number,
)

_WINDOWS = ("DEEP", "IN_H", "IN_W", "OUT_H", "OUT_W", "KH", "KW", "STRIDE_H", "STRIDE_W", "PAD_H",
            "PAD_W")
_REACH = (*(n for n in _WINDOWS if n[0] != "K"), "REACH_H", "REACH_W")
_MEAN = (*_WINDOWS, "PAD_COUNTS", "DIVISOR")


def _ints(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "int")


def _rows_of(side: str) -> Callable[[Defines, Sizes], Geometry]:
    """An item for each row of the input or the output, and for each vector of channels."""
    return lambda macros, sizes: ((int(sizes["DEEP"]) // number(macros, "V"),
                                   int(sizes["PLANES"]) * int(sizes[f"{side}_H"])), (1, 1))


MAX_POOL = Kernel("max_pool", ("r", "w", "w"), _rows_of("OUT"),
                  _ints(*_WINDOWS, "DIL_H", "DIL_W"), {"V": 4})
MAX_POOL_GRAD = Kernel("max_pool_grad", ("r", "r", "w"), _rows_of("IN"), _ints(*_REACH), {"V": 4})
AVG_POOL = Kernel("avg_pool", ("r", "w"), _rows_of("OUT"), _ints(*_MEAN), {"V": 4, "ADAPTIVE": 0})
AVG_POOL_GRAD = Kernel("avg_pool_grad", ("r", "w"), _rows_of("IN"), _ints(*_MEAN),
                       {"V": 4, "ADAPTIVE": 0})
KERNELS: tuple[Kernel, ...] = (MAX_POOL, MAX_POOL_GRAD, AVG_POOL, AVG_POOL_GRAD)


def cases() -> Iterator[Case]:
    """Planes, rows, columns, channels; kernel, stride, padding, dilation, size."""
    for name, shape in enumerate((
            ((2, 5, 9, 16), (3, 3), (2, 2), (1, 1), (1, 1), (3, 5)),
            ((2, 4, 7, 6), (2, 3), (1, 1), (0, 1), (2, 1), (2, 7)),
            ((2, 3, 4, 3), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)),
            ((1, 5, 17, 8), (2, 2), (2, 3), (1, 1), (1, 2), (3, 6)),
            ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1)))):
        yield from _max_cases(str(name), *shape)
        for counts, divisor in ((0, 0), (1, 0), (1, 5)):
            yield from _avg_cases(f"{name} {counts} {divisor}", *shape, counts, divisor)
    yield from _adaptive_cases((2, 7, 10, 4), (3, 4))
    yield from _adaptive_cases((2, 2, 3, 1), (3, 5))


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def _sizes(shape: Shape, size: Shape, kernel: Shape = (0, 0), stride: Shape = (1, 1),
           padding: Shape = (0, 0), counts: int = 0, divisor: int = 0) -> dict[str, int]:
    pairs = {"IN": shape[1:3], "OUT": size, "STRIDE": stride, "PAD": padding}
    return {"PLANES": shape[0], "DEEP": shape[3], "KH": kernel[0], "KW": kernel[1],
            "PAD_COUNTS": counts, "DIVISOR": divisor, **{f"{n}_{a}": v[i] for n, v in pairs.items()
                                   for i, a in enumerate("HW")}}


def _max_cases(name: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape,
               dilation: Shape, size: Shape) -> Iterator[Case]:
    x, dy = _numbers(*shape), _numbers(shape[0], *size, shape[3])
    x.flat[x.size // 2:] = x.flat[0]                              # the first of equals wins
    y, index, dx = np.zeros(dy.shape), np.zeros(dy.shape, "i4"), np.zeros(x.shape)
    for p, oh, ow, c in np.ndindex(*y.shape):
        rows = [oh * stride[0] - padding[0] + k * dilation[0] for k in range(kernel[0])]
        columns = [ow * stride[1] - padding[1] + k * dilation[1] for k in range(kernel[1])]
        seen = [(h, w) for h in rows for w in columns if 0 <= h < shape[1] and 0 <= w < shape[2]]
        h, w = max(seen, key=lambda at: x[p, at[0], at[1], c])
        y[p, oh, ow, c], index[p, oh, ow, c] = x[p, h, w, c], h * shape[2] + w
        dx[p, h, w, c] += dy[p, oh, ow, c]
    sizes = _sizes(shape, size, kernel, stride, padding)
    sizes |= {"DIL_H": dilation[0], "DIL_W": dilation[1],
              "REACH_H": (kernel[0] - 1) * dilation[0], "REACH_W": (kernel[1] - 1) * dilation[1]}
    vx, vy, vi = Value(0, x.shape), Value(1, y.shape), Value(2, y.shape, "i32")
    macros = {"V": dividing_width(shape[3])}
    step = MAX_POOL.step((vx, vy, vi), sizes, macros)
    yield Case(f"max_pool {name}", (step,), {0: x}, {1: y, 2: index})
    step = MAX_POOL_GRAD.step((vy, vi, vx), sizes, macros)
    yield Case(f"max_pool_grad {name}", (step,), {1: dy, 2: index}, {0: dx})


def _avg_cases(name: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape,
               dilation: Shape, size: Shape, counts: int, divisor: int) -> Iterator[Case]:
    """The same windows without dilation: fewer of them are asked for, or they hang over."""
    spans = []
    for i in range(2):
        ends = [(o * stride[i] - padding[i], o * stride[i] - padding[i] + kernel[i])
                for o in range(size[i])]
        spans.append([(a, min(b, shape[i + 1] + padding[i])) for a, b in ends])
    sizes = _sizes(shape, size, kernel, stride, padding, counts, divisor)
    yield from _mean_cases(name, shape, spans, sizes, counts, divisor, 0)


def _adaptive_cases(shape: Shape, size: Shape) -> Iterator[Case]:
    spans = [[(o * n // m, ceil_div((o + 1) * n, m)) for o in range(m)]
             for n, m in zip(shape[1:3], size, strict=True)]
    yield from _mean_cases(f"adaptive {size}", shape, spans, _sizes(shape, size), 0, 0, 1)


def _mean_cases(name: str, shape: Shape, spans: list[list[tuple[int, int]]], sizes: dict[str, int],
                counts: int, divisor: int, adaptive: int) -> Iterator[Case]:
    x, dy = _numbers(*shape), _numbers(shape[0], len(spans[0]), len(spans[1]), shape[3])
    y, dx = np.zeros(dy.shape), np.zeros(x.shape)
    for oh, (top, bottom) in enumerate(spans[0]):
        for ow, (left, right) in enumerate(spans[1]):
            part = (slice(None), slice(max(top, 0), bottom), slice(max(left, 0), right))
            real = x[part][0, ..., 0].size
            share = divisor or ((bottom - top) * (right - left) if counts else real)
            y[:, oh, ow] = x[part].sum((1, 2), dtype="f8") / share
            dx[part] += dy[:, oh, ow, None, None] / share
    values = Value(0, x.shape), Value(1, y.shape)
    macros = {"V": dividing_width(shape[3]), "ADAPTIVE": adaptive}
    step = AVG_POOL.step(values, sizes, macros)
    yield Case(f"avg_pool {name}", (step,), {0: x}, {1: y})
    step = AVG_POOL_GRAD.step(values[::-1], sizes, macros)
    yield Case(f"avg_pool_grad {name}", (step,), {1: dy}, {0: dx})
