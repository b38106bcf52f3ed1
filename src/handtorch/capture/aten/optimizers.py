"""The update ops of `capture/optimizers.py`."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Attr, Value

KEEP: tuple[str, ...] = ()
Values = Sequence[Value]


def _each(b: Builder, op: str, w: Values, g: Values, c: Value, moments: Values, **attrs: Attr
          ) -> Result:
    """A node for each weight; all new weights, then all new moments."""
    count = len(moments) // len(w)
    new = [b.emit(op, (*pair, c, *moments[i * count:(i + 1) * count]), **attrs)
           for i, pair in enumerate(zip(w, g, strict=True))]
    return (*(first for first, *_ in new), *(m for _, *rest in new for m in rest))


@aten("tick.default")
def _tick(b: Builder, steps: Value, lr: Value, beta1: float, beta2: float, decay: float,
          lr_decay: float) -> Result:
    return b.emit("tick", (steps, lr), beta1=beta1, beta2=beta2, decay=decay, lr_decay=lr_decay)


@aten("sgd.default")
def _sgd(b: Builder, w: Values, g: Values, c: Value, moments: Values, decay: float,
         maximize: bool, momentum: float, nesterov: bool) -> Result:
    return _each(b, "sgd", w, g, c, moments, decay=decay, maximize=maximize, momentum=momentum,
                 nesterov=nesterov)


@aten("adam.default")
def _adam(b: Builder, w: Values, g: Values, c: Value, moments: Values, decay: float,
          maximize: bool, beta1: float, beta2: float, eps: float, decoupled: bool) -> Result:
    return _each(b, "adam", w, g, c, moments, decay=decay, maximize=maximize, beta1=beta1,
                 beta2=beta2, eps=eps, decoupled=decoupled)


@aten("rmsprop.default")
def _rmsprop(b: Builder, w: Values, g: Values, c: Value, moments: Values, decay: float,
             maximize: bool, alpha: float, eps: float, momentum: float, centered: bool) -> Result:
    return _each(b, "rmsprop", w, g, c, moments, decay=decay, maximize=maximize, alpha=alpha,
                 eps=eps, momentum=momentum, centered=centered)


@aten("adagrad.default")
def _adagrad(b: Builder, w: Values, g: Values, c: Value, moments: Values, decay: float,
             maximize: bool, eps: float) -> Result:
    return _each(b, "adagrad", w, g, c, moments, decay=decay, maximize=maximize, eps=eps)
