"""Point-wise ops."""

from __future__ import annotations

from handtorch.capture.builder import Builder, aten
from handtorch.graph.node import Value


@aten("relu.default")
def _relu(b: Builder, x: Value) -> Value:
    return b.one("relu", (x,))


@aten("threshold_backward.default")
def _threshold_backward(b: Builder, g: Value, y: Value, threshold: float) -> Value:
    if threshold != 0:
        raise b.refuse("aten.threshold_backward", f"threshold {threshold}, only 0 is known")
    return b.one("relu_grad", (g, y))


@aten("add.Tensor", "sub.Tensor", "mul.Tensor")
def _binary(b: Builder, x: Value, y: Value | float, *, op: str, alpha: float = 1) -> Value:
    if op == "mul" and not isinstance(y, Value):
        return b.one("scale", (x,), factor=float(y))
    if alpha != 1 or not isinstance(y, Value):
        raise b.refuse(f"aten.{op}", f"alpha={alpha}, second operand {y}: not known yet")
    return b.one(op, (x, y))


@aten("div.Tensor")
def _div(b: Builder, x: Value, y: Value | float) -> Value:
    if isinstance(y, Value):
        raise b.refuse("aten.div", "division by a tensor is not known yet")
    return b.one("scale", (x,), factor=1.0 / float(y))
