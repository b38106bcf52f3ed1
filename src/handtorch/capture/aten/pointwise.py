"""Point-wise ops."""

from __future__ import annotations

from typing import Any

from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value

_UNARY = ("neg", "abs", "exp", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos",
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
    if threshold != 0:
        raise b.refuse("aten.threshold_backward", f"threshold {threshold}, only 0 is known")
    return b.one("relu_grad", (g, y))


@aten("_to_copy.default")
def _to_copy(b: Builder, x: Value, *, dtype: Any = None, **_: Any) -> Value:
    return x if dtype is None else b.cast(x, b.dtype(dtype))
