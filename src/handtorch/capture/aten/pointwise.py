"""Point-wise ops."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import get_decompositions

from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value

_ATEN = torch.ops.aten
# Core ATen leaves these whole; to us they are made of simpler parts, which fuse again.
DECOMPOSE = get_decompositions([
    _ATEN.leaky_relu, _ATEN.elu, _ATEN.gelu, _ATEN.gelu_backward, _ATEN.hardtanh,
    _ATEN.hardtanh_backward, _ATEN.hardsigmoid, _ATEN.hardswish, _ATEN.hardshrink,
    _ATEN.softshrink, _ATEN.threshold, _ATEN.masked_fill, _ATEN.prelu])
_UNARY = ("neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "sin", "cos",
          "tanh", "erf", "sign", "floor", "ceil", "relu", "sigmoid", "isnan", "logical_not")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
           "logical_and", "logical_or", "logical_xor")

KEEP: tuple[str, ...] = ("relu", "threshold_backward", "sigmoid")


@aten(*(f"{op}.default" for op in _UNARY))
def _unary(b: Builder, x: Value, *, op: str) -> Value:
    return b.one(op, (x,))


@aten(*(f"{op}.{kind}" for op in _BINARY for kind in ("Tensor", "Scalar", "default")))
def _binary(b: Builder, x: Any, y: Any, *, op: str, alpha: float = 1, rounding_mode: Any = None
            ) -> Value:
    """Numbers become constants of the other side's type; mixed types meet in float."""
    if rounding_mode is not None:
        raise b.refuse(f"aten.{op}", f"rounding_mode={rounding_mode!r} is not known")
    x, y = b.same_type(x, y)
    if alpha != 1:
        y = b.one("mul", (y, b.constant(alpha, y.dtype)))
    return b.one(op, (x, y))


@aten("clamp.default", "clamp.Tensor")
def _clamp(b: Builder, x: Value, low: Any = None, high: Any = None) -> Value:
    for bound, op in ((low, "maximum"), (high, "minimum")):
        if bound is not None:
            x = b.one(op, b.same_type(x, bound))
    return x


@aten("clamp_min.default", "clamp_max.default")
def _clamp_one(b: Builder, x: Value, bound: Any, *, op: str) -> Value:
    return _clamp(b, x, bound, None) if op == "clamp_min" else _clamp(b, x, None, bound)


@aten("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "bitwise_not.default")
def _bitwise(b: Builder, *inputs: Value, op: str) -> Value:
    """On masks only, where bits and truth are the same."""
    if any(v.dtype != "bool" for v in inputs):
        raise b.refuse(f"aten.{op}", "known for masks (bool), not for numbers")
    return b.one(op.replace("bitwise", "logical"), inputs)


@aten("pow.Tensor_Scalar")
def _pow(b: Builder, x: Value, power: float) -> Value:
    if power == 2:
        return b.one("square", (x,))
    if power == 0.5:
        return b.one("sqrt", (x,))
    return b.one("pow", (x, b.constant(power, "f32")))


@aten("where.self")
def _where(b: Builder, mask: Value, x: Any, y: Any) -> Value:
    x, y = b.same_type(x, y)
    return b.one("where", (mask, x, y))


@aten("threshold_backward.default")
def _threshold_backward(b: Builder, g: Value, y: Value, threshold: float) -> Value:
    """Also the gradient of ReLU, and then y is its output."""
    if threshold == 0:
        return b.one("relu_grad", (g, y))
    above = b.one("gt", (y, b.constant(threshold, "f32")))
    return b.one("where", (above, g, b.constant(0, "f32")))


@aten("hardshrink_backward.default", "softshrink_backward.default")
def _shrink_backward(b: Builder, g: Value, x: Value, size: float) -> Value:
    outside = b.one("gt", (b.one("abs", (x,)), b.constant(size, "f32")))
    return b.one("where", (outside, g, b.constant(0, "f32")))


@aten("_to_copy.default")
def _to_copy(b: Builder, x: Value, *, dtype: Any = None, **_: Any) -> Value:
    return x if dtype is None else b.cast(x, b.dtype(dtype))
