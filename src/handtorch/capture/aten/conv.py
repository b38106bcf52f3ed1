"""Convolutions; one dimension is two with a height of 1."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Attr, Value

KEEP: tuple[str, ...] = ("convolution", "convolution_backward")


def _flat(b: Builder, x: Value) -> Value:
    """With a height, if it has none."""
    return x if len(x.shape) == 4 else b.one("reshape", (x,),
                                             shape=(*x.shape[:2], 1, *x.shape[2:]))


def _like(b: Builder, x: Value, rank: int) -> Value:
    """Without the height, if what it stands for has none."""
    return x if rank == 4 else b.one("reshape", (x,), shape=(*x.shape[:2], *x.shape[3:]))


def _windows(b: Builder, x: Value, stride: Sequence[int], padding: Sequence[int],
             dilation: Sequence[int], groups: int) -> dict[str, Attr]:
    if len(x.shape) not in (3, 4):
        raise b.refuse(f"a convolution of {x}", f"{len(x.shape) - 2} dimensions; 1 and 2 are known")
    if x.size == 0:
        raise b.refuse(f"a convolution of {x}", "it has no elements", "a batch of at least 1")

    def pair(numbers: Sequence[int], height: int) -> tuple[int, ...]:
        return tuple(numbers) if len(numbers) == 2 else (height, *numbers)
    return {"stride": pair(stride, 1), "padding": pair(padding, 0), "dilation": pair(dilation, 1),
            "groups": groups}


@aten("convolution.default")
def _convolution(b: Builder, x: Value, w: Value, bias: Value | None, stride: Sequence[int],
                 padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                 output_padding: Sequence[int], groups: int) -> Value:
    attrs = _windows(b, x, stride, padding, dilation, groups)
    if bias is not None:
        attrs["epilogue"] = ("bias",)
    inputs = (_flat(b, x), _flat(b, w), *(() if bias is None else (bias,)))
    if not transposed:
        return _like(b, b.one("conv", inputs, **attrs), len(x.shape))
    axes = zip(x.shape[2:], stride, padding, dilation, w.shape[2:], output_padding, strict=True)
    size = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + more for n, s, p, d, k, more in axes]
    attrs["size"] = (1, *size)[-2:]
    return _like(b, b.one("conv_grad_input", inputs, **attrs), len(x.shape))


@aten("convolution_backward.default")
def _convolution_backward(b: Builder, dy: Value, x: Value, w: Value, bias_sizes: object,
                          stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                          transposed: bool, output_padding: Sequence[int], groups: int,
                          mask: Sequence[bool]) -> Result:
    """Of a transposed convolution, x and dy have changed places."""
    attrs = _windows(b, x, stride, padding, dilation, groups)
    dy, x, weights, rank = _flat(b, dy), _flat(b, x), _flat(b, w), len(x.shape)
    dx = dw = db = None
    if mask[0] and transposed:
        dx = _like(b, b.one("conv", (dy, weights), size=x.shape[2:], **attrs), rank)
    elif mask[0]:
        dx = b.one("conv_grad_input", (dy, weights), size=x.shape[2:], **attrs)
        dx = _like(b, dx, rank)
    if mask[1]:
        pair = (x, dy) if transposed else (dy, x)
        dw = b.one("conv_grad_weight", pair, kernel=weights.shape[2:], **attrs)
        dw = _like(b, dw, rank)
    if mask[2]:
        db = b.one("sum", (dy,), axes=(0, 2, 3))
    return dx, dw, db
