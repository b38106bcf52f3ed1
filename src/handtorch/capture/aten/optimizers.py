"""The update ops of `capture/optimizers.py`."""

from __future__ import annotations

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Value

KEEP: tuple[str, ...] = ()


@aten("sgd.default")
def _sgd(b: Builder, w: Value, g: Value, lr: Value, m: Value | None, momentum: float,
         decay: float, nesterov: bool, maximize: bool) -> Result:
    kept = () if m is None else (m,)
    outs = b.emit("sgd", (w, g, lr, *kept), momentum=momentum, decay=decay, nesterov=nesterov,
                  maximize=maximize)
    return outs if m is not None else (outs[0], None)
