"""Pooling, and enlarging by whole factors, which is the gradient of a pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Attr, Value

KEEP: tuple[str, ...] = (
    "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
    "avg_pool2d_backward", "avg_pool3d", "avg_pool3d_backward", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward", "upsample_nearest1d", "upsample_nearest1d_backward",
    "upsample_nearest2d", "upsample_nearest2d_backward")

Numbers = Sequence[int]


def _pair(numbers: int | Numbers) -> tuple[int, int]:
    if isinstance(numbers, int):
        return numbers, numbers
    return (numbers[0], numbers[-1])


def _steps(kernel: Numbers, stride: Numbers, padding: int | Numbers) -> dict[str, Attr]:
    return {"kernel": _pair(kernel), "stride": _pair(stride or kernel), "padding": _pair(padding)}


def _size(x: Value, kernel: Numbers, stride: Numbers, padding: int | Numbers,
          dilation: int | Numbers, ceil_mode: bool) -> tuple[int, ...]:
    """How many windows fit; with `ceil_mode` also one that begins inside and hangs over."""
    found = []
    for n, k, step, pad, gap in zip(x.shape[-2:], _pair(kernel), _pair(stride or kernel),
                                    _pair(padding), _pair(dilation), strict=True):
        room = n + 2 * pad - gap * (k - 1) - 1
        count = (-(-room // step) if ceil_mode else room // step) + 1
        found.append(count - 1 if ceil_mode and (count - 1) * step >= n + pad else count)
    return tuple(found)


@aten("max_pool2d_with_indices.default")
def _max_pool(b: Builder, x: Value, kernel: Numbers, stride: Numbers = (),
              padding: int | Numbers = 0, dilation: int | Numbers = 1, ceil_mode: bool = False
              ) -> Result:
    size = _size(x, kernel, stride, padding, dilation, ceil_mode)
    return b.emit("max_pool", (x,), dilation=_pair(dilation), size=size,
                  **_steps(kernel, stride, padding))


@aten("max_pool2d_with_indices_backward.default")
def _max_pool_grad(b: Builder, dy: Value, x: Value, kernel: Numbers, stride: Numbers,
                   padding: int | Numbers, dilation: int | Numbers, ceil_mode: bool, index: Value
                   ) -> Value:
    return b.one("max_pool_grad", (dy, index), dilation=_pair(dilation), shape=x.shape,
                 **_steps(kernel, stride, padding))


def _mean(kernel: Numbers, stride: Numbers, padding: int | Numbers, pad_counts: bool,
          divisor: int | None) -> dict[str, Attr]:
    return {**_steps(kernel, stride, padding), "pad_counts": pad_counts, "divisor": divisor or 0}


@aten("avg_pool2d.default")
def _avg_pool(b: Builder, x: Value, kernel: Numbers, stride: Numbers = (),
              padding: int | Numbers = 0, ceil_mode: bool = False, pad_counts: bool = True,
              divisor: int | None = None) -> Value:
    return b.one("avg_pool", (x,), size=_size(x, kernel, stride, padding, 1, ceil_mode),
                 **_mean(kernel, stride, padding, pad_counts, divisor))


@aten("avg_pool2d_backward.default")
def _avg_pool_grad(b: Builder, dy: Value, x: Value, kernel: Numbers, stride: Numbers,
                   padding: int | Numbers, ceil_mode: bool, pad_counts: bool, divisor: int | None
                   ) -> Value:
    return b.one("avg_pool_grad", (dy,), shape=x.shape,
                 **_mean(kernel, stride, padding, pad_counts, divisor))


def _along_depth(b: Builder, kernel: Numbers, stride: Numbers, padding: int | Numbers
                 ) -> tuple[Numbers, Numbers, Numbers]:
    """The first axis of a pooling over three, if the other two are left alone."""
    def three(numbers: int | Numbers) -> Numbers:
        return [numbers] * 3 if isinstance(numbers, int) else list(numbers) * (4 - len(numbers))
    k, s, p = three(kernel), three(stride or kernel), three(padding)
    if k[1:] != [1, 1] or s[1:] != [1, 1] or p[1:] != [0, 0]:
        raise b.refuse("avg_pool3d", f"kernel {list(k)}, stride {list(s)}, padding {list(p)}; only "
                       "windows along the first of the three axes are known",
                       "avg_pool2d, or local_response_norm")
    return [k[0], 1], [s[0], 1], [p[0], 0]


def _flat(b: Builder, x: Value) -> Value:
    return b.one("reshape", (x,), shape=(*x.shape[:-2], x.shape[-2] * x.shape[-1]))


@aten("avg_pool3d.default")
def _avg_pool3d(b: Builder, x: Value, kernel: Numbers, stride: Numbers = (),
                padding: int | Numbers = 0, ceil_mode: bool = False, pad_counts: bool = True,
                divisor: int | None = None) -> Value:
    along = _along_depth(b, kernel, stride, padding)
    y = _avg_pool(b, _flat(b, x), *along, ceil_mode, pad_counts, divisor)
    return b.one("reshape", (y,), shape=(*y.shape[:-1], *x.shape[-2:]))


@aten("avg_pool3d_backward.default")
def _avg_pool3d_grad(b: Builder, dy: Value, x: Value, kernel: Numbers, stride: Numbers,
                     padding: int | Numbers, ceil_mode: bool, pad_counts: bool,
                     divisor: int | None) -> Value:
    along = _along_depth(b, kernel, stride, padding)
    dx = b.one("avg_pool_grad", (_flat(b, dy),), **_mean(*along, pad_counts, divisor),
               shape=(*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return b.one("reshape", (dx,), shape=x.shape)


def _parts(inputs: Numbers, outputs: Numbers) -> dict[str, Attr]:
    """Attributes of an adaptive pooling; equal parts are ordinary windows."""
    if all(n % o == 0 for n, o in zip(inputs, outputs, strict=True)):
        equal = [n // o for n, o in zip(inputs, outputs, strict=True)]
        return _mean(equal, equal, 0, True, None)
    return {"adaptive": True}


@aten("_adaptive_avg_pool2d.default")
def _adaptive_avg_pool(b: Builder, x: Value, size: Numbers) -> Value:
    return b.one("avg_pool", (x,), size=tuple(size), **_parts(x.shape[-2:], size))


@aten("_adaptive_avg_pool2d_backward.default")
def _adaptive_avg_pool_grad(b: Builder, dy: Value, x: Value) -> Value:
    return b.one("avg_pool_grad", (dy,), shape=x.shape, **_parts(x.shape[-2:], dy.shape[-2:]))


def _factors(b: Builder, inputs: Numbers, outputs: Numbers, scales: Sequence[float | None]
             ) -> dict[str, Attr]:
    """A pooling whose sums are the gradient of enlarging each element by whole factors."""
    factors = [o // n for n, o in zip(inputs, outputs, strict=True)]
    whole = all(n * f == o for n, o, f in zip(inputs, outputs, factors, strict=True))
    if not whole or any(s not in (None, f) for s, f in zip(scales, factors, strict=True)):
        raise b.refuse(f"upsample_nearest from {list(inputs)} to {list(outputs)}",
                       "only whole factors are known", "a scale_factor of 2, 3, ...")
    two = (1, *factors)[-2:]
    return _mean(two, two, 0, True, 1)


@aten("upsample_nearest1d.default", "upsample_nearest2d.default")
def _upsample(b: Builder, x: Value, size: Numbers, *scales: float | None) -> Value:
    inputs = x.shape[2:]
    known = scales or (None,) * len(inputs)
    return _enlarged(b, x, tuple(size), _factors(b, inputs, size, known))


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec")
def _upsample_vec(b: Builder, x: Value, size: Numbers | None, scales: Sequence[float] | None
                  ) -> Value:
    inputs = x.shape[2:]
    if scales is None:
        assert size is not None
        return _enlarged(b, x, tuple(size), _factors(b, inputs, size, (None,) * len(inputs)))
    outputs = [int(n * s) for n, s in zip(inputs, scales, strict=True)]
    return _enlarged(b, x, tuple(outputs), _factors(b, inputs, outputs, scales))


def _enlarged(b: Builder, x: Value, size: tuple[int, ...], windows: dict[str, Attr]) -> Value:
    if len(size) == 2:
        return b.one("avg_pool_grad", (x,), shape=(*x.shape[:2], *size), **windows)
    flat = b.one("reshape", (x,), shape=(*x.shape[:2], 1, x.shape[2]))
    y = b.one("avg_pool_grad", (flat,), shape=(*x.shape[:2], 1, *size), **windows)
    return b.one("reshape", (y,), shape=(*x.shape[:2], *size))


@aten("upsample_nearest1d_backward.default", "upsample_nearest2d_backward.default")
def _upsample_grad(b: Builder, dy: Value, size: Numbers, inputs: Numbers, *scales: Any) -> Value:
    windows = _factors(b, inputs[2:], size, scales or (None,) * len(size))
    flat = dy if len(size) == 2 else b.one("reshape", (dy,), shape=(*dy.shape[:2], 1, *size))
    dx = b.one("avg_pool", (flat,), size=(1, *inputs[2:])[-2:], **windows)
    return dx if len(size) == 2 else b.one("reshape", (dx,), shape=tuple(inputs))
