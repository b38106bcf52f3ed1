"""Pooling: specs and cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.kernels.case import Array, Case
from handtorch.kernels.geometry import MANY
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, dividing_width

_ITEMS = ("ROWS", "TAKE", "DEEP", "STRIP", "IN_H", "IN_W", "OUT_H", "OUT_W")
_STEPS = ("STRIDE_H", "STRIDE_W", "PAD_H", "PAD_W")
_LARGEST = (*_ITEMS, "HIGH", "WIDE", *_STEPS, "DIL_H", "DIL_W")
_REACH = (*_ITEMS, *_STEPS, "REACH_H", "REACH_W")
_MEAN = (*_ITEMS, "KH", "KW", *_STEPS, "PAD_COUNTS", "DIVISOR")


def _ints(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "int")


def _geometry(_: Defines, sizes: Sizes) -> Geometry:
    return (ceil_div(int(sizes["DEEP"]), int(sizes["STRIP"])),
            ceil_div(int(sizes["ROWS"]), int(sizes["TAKE"]))), (1, 1)


MAX_POOL = Kernel("max_pool", ("r", "w", "w"), _geometry, _ints(*_LARGEST),
                  {"V": 4, "KH": 3, "KW": 3, "FAR": 0})
MAX_POOL_GRAD = Kernel("max_pool_grad", ("r", "r", "w"), _geometry, _ints(*_REACH),
                       {"V": 4, "FAR": 0})
AVG_POOL = Kernel("avg_pool", ("r", "w"), _geometry, _ints(*_MEAN),
                  {"V": 4, "ADAPTIVE": 0, "FAR": 0})
AVG_POOL_GRAD = Kernel("avg_pool_grad", ("r", "w"), _geometry, _ints(*_MEAN),
                       {"V": 4, "ADAPTIVE": 0, "FAR": 0})
KERNELS: tuple[Kernel, ...] = (MAX_POOL, MAX_POOL_GRAD, AVG_POOL, AVG_POOL_GRAD)

# A CPU reads memory fastest in the order in which it lies: an item takes whole rows, up to so many
# channels of them. The rows of a window are too many streams for it to follow by itself: what
# comes next is asked for so many pixels ahead.
WIDEST_STRIP, PIXELS_AHEAD = 1024, 2
LEAST_AHEAD = 8                    # lanes: for fewer, asking costs more than it gives
LONGEST_WRITTEN_OUT = 3            # sides of a window that max_pool sees without a loop


def shares(sizes: Sizes, side: str, spec: DeviceSpec) -> dict[str, int]:
    """What an item does of the input or the output (`side`): TAKE rows, STRIP channels of them."""
    rows, deep = int(sizes["PLANES"]) * int(sizes[f"{side}_H"]), int(sizes["DEEP"])
    width = dividing_width(deep)
    if spec.kind != "cpu":
        return {"ROWS": rows, "TAKE": 1, "STRIP": width}
    strips = max(ceil_div(MANY, rows), ceil_div(deep, WIDEST_STRIP))
    return {"ROWS": rows, "TAKE": max(rows // MANY, 1),
            "STRIP": ceil_div(deep // width, strips) * width}


def lanes(deep: int, spec: DeviceSpec) -> dict[str, int]:
    """V and FAR for so many channels."""
    width = dividing_width(deep)
    ahead = spec.kind == "cpu" and width >= LEAST_AHEAD
    return {"V": width, "FAR": PIXELS_AHEAD if ahead else 0}


def window(kernel: Sequence[int]) -> dict[str, int]:
    """KH and KW of max_pool."""
    high, wide = kernel if max(kernel) <= LONGEST_WRITTEN_OUT else (0, 0)
    return {"KH": high, "KW": wide}


def cases() -> Iterator[Case]:
    """Planes, rows, columns, channels; kernel, stride, padding, dilation, size."""
    for name, shape in enumerate((
            ((2, 5, 9, 16), (3, 3), (2, 2), (1, 1), (1, 1), (3, 5)),
            ((2, 4, 7, 6), (2, 3), (1, 1), (0, 1), (2, 1), (2, 7)),
            ((2, 3, 4, 3), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)),
            ((1, 5, 17, 8), (2, 2), (2, 3), (1, 1), (1, 2), (3, 6)),
            ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1)),
            ((1, 6, 9, 4), (4, 3), (2, 1), (2, 1), (1, 2), (4, 7)))):
        yield from _max_cases(str(name), *shape)
        for counts, divisor in ((0, 0), (1, 0), (1, 5)):
            yield from _avg_cases(f"{name} {counts} {divisor}", *shape, counts, divisor)
    yield from _adaptive_cases((2, 7, 10, 4), (3, 4))
    yield from _adaptive_cases((2, 2, 3, 1), (3, 5))
    cpu = replace(GENERIC, kind="cpu")
    for name, shape in enumerate((              # rows shared unevenly, then strips of channels
            ((13, 11, 3, 8), (3, 3), (1, 1), (1, 1), (1, 1), (11, 3)),
            ((2, 20, 2, 48), (2, 2), (1, 1), (0, 0), (1, 1), (19, 1)),
            ((70, 2, 4, 3), (4, 3), (2, 1), (2, 1), (1, 1), (2, 4)))):
        yield from _max_cases(f"rows {name}", *shape, spec=cpu)
        yield from _avg_cases(f"rows {name}", *shape, 0, 0, spec=cpu)
    yield from _adaptive_cases((13, 11, 3, 8), (7, 2), cpu)


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def _sizes(shape: Shape, size: Shape, kernel: Shape = (0, 0), stride: Shape = (1, 1),
           padding: Shape = (0, 0), counts: int = 0, divisor: int = 0) -> dict[str, int]:
    pairs = {"IN": shape[1:3], "OUT": size, "STRIDE": stride, "PAD": padding}
    return {"PLANES": shape[0], "DEEP": shape[3], "KH": kernel[0], "KW": kernel[1],
            "PAD_COUNTS": counts, "DIVISOR": divisor, **{f"{n}_{a}": v[i] for n, v in pairs.items()
                                   for i, a in enumerate("HW")}}


def _max_cases(name: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape,
               dilation: Shape, size: Shape, spec: DeviceSpec = GENERIC) -> Iterator[Case]:
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
    sizes |= {"HIGH": kernel[0], "WIDE": kernel[1], "DIL_H": dilation[0], "DIL_W": dilation[1],
              "REACH_H": (kernel[0] - 1) * dilation[0], "REACH_W": (kernel[1] - 1) * dilation[1]}
    vx, vy, vi = Value(0, x.shape), Value(1, y.shape), Value(2, y.shape, "i32")
    macros = lanes(shape[3], spec)
    step = MAX_POOL.step((vx, vy, vi), sizes | shares(sizes, "OUT", spec), macros | window(kernel))
    yield Case(f"max_pool {name}", (step,), {0: x}, {1: y, 2: index})
    step = MAX_POOL_GRAD.step((vy, vi, vx), sizes | shares(sizes, "IN", spec), macros)
    yield Case(f"max_pool_grad {name}", (step,), {1: dy, 2: index}, {0: dx})


def _avg_cases(name: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape,
               dilation: Shape, size: Shape, counts: int, divisor: int,
               spec: DeviceSpec = GENERIC) -> Iterator[Case]:
    """The same windows without dilation: fewer of them are asked for, or they hang over."""
    spans = []
    for i in range(2):
        ends = [(o * stride[i] - padding[i], o * stride[i] - padding[i] + kernel[i])
                for o in range(size[i])]
        spans.append([(a, min(b, shape[i + 1] + padding[i])) for a, b in ends])
    sizes = _sizes(shape, size, kernel, stride, padding, counts, divisor)
    yield from _mean_cases(name, shape, spans, sizes, counts, divisor, 0, spec)


def _adaptive_cases(shape: Shape, size: Shape, spec: DeviceSpec = GENERIC) -> Iterator[Case]:
    spans = [[(o * n // m, ceil_div((o + 1) * n, m)) for o in range(m)]
             for n, m in zip(shape[1:3], size, strict=True)]
    yield from _mean_cases(f"adaptive {size}", shape, spans, _sizes(shape, size), 0, 0, 1, spec)


def _mean_cases(name: str, shape: Shape, spans: list[list[tuple[int, int]]], sizes: dict[str, int],
                counts: int, divisor: int, adaptive: int, spec: DeviceSpec) -> Iterator[Case]:
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
    macros = {**lanes(shape[3], spec), "ADAPTIVE": adaptive}
    step = AVG_POOL.step(values, sizes | shares(sizes, "OUT", spec), macros)
    yield Case(f"avg_pool {name}", (step,), {0: x}, {1: y})
    step = AVG_POOL_GRAD.step(values[::-1], sizes | shares(sizes, "IN", spec), macros)
    yield Case(f"avg_pool_grad {name}", (step,), {1: dy}, {0: dx})
