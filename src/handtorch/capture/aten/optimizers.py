"""The update ops of `capture/optimizers.py`."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ()


@aten("tick.default")
def _tick(b: Builder, steps: Value, lr: Value, beta1: float, beta2: float, decay: float,
          lr_decay: float) -> Result:
    return b.emit("tick", (steps, lr), beta1=beta1, beta2=beta2, decay=decay, lr_decay=lr_decay)


@aten("sgd.default")
def _sgd(b: Builder, w: Value, g: Value, lr: Value, moments: Sequence[Value], decay: float,
         maximize: bool, momentum: float, nesterov: bool) -> Result:
    return b.emit("sgd", (w, g, lr, *moments), decay=decay, maximize=maximize, momentum=momentum,
                  nesterov=nesterov)


@aten("adam.default")
def _adam(b: Builder, w: Value, g: Value, c: Value, moments: Sequence[Value], decay: float,
          maximize: bool, beta1: float, beta2: float, eps: float, decoupled: bool) -> Result:
    return b.emit("adam", (w, g, c, *moments), decay=decay, maximize=maximize, beta1=beta1,
                  beta2=beta2, eps=eps, decoupled=decoupled)


@aten("rmsprop.default")
def _rmsprop(b: Builder, w: Value, g: Value, c: Value, moments: Sequence[Value], decay: float,
             maximize: bool, alpha: float, eps: float, momentum: float, centered: bool) -> Result:
    return b.emit("rmsprop", (w, g, c, *moments), decay=decay, maximize=maximize, alpha=alpha,
                  eps=eps, momentum=momentum, centered=centered)


@aten("adagrad.default")
def _adagrad(b: Builder, w: Value, g: Value, c: Value, moments: Sequence[Value], decay: float,
             maximize: bool, eps: float) -> Result:
    return b.emit("adagrad", (w, g, c, *moments), decay=decay, maximize=maximize, eps=eps)
