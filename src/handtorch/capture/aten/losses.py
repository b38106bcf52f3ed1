"""Class losses; all others are taken apart into point-wise ops and sums by PyTorch itself."""

from __future__ import annotations

from typing import Any

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Value

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}

KEEP: tuple[str, ...] = ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward",
                         "nll_loss2d_backward")


@aten("nll_loss_forward.default", "nll_loss2d_forward.default")
def _nll_loss(b: Builder, logp: Value, target: Value, weight: Value | None, reduction: int,
              ignore: int) -> Result:
    """The second result, the sum of the weights, is computed again where a gradient needs it."""
    given = (logp, target) if weight is None else (logp, target, weight)
    return b.one("nll_loss", given, reduction=_REDUCTIONS[reduction], ignore=ignore), None


@aten("nll_loss_backward.default", "nll_loss2d_backward.default")
def _nll_loss_grad(b: Builder, g: Value, logp: Value, target: Value, weight: Value | None,
                   reduction: int, ignore: int, _total: Any) -> Value:
    given = (g, target) if weight is None else (g, target, weight)
    return b.one("nll_loss_grad", given, shape=logp.shape, reduction=_REDUCTIONS[reduction],
                 ignore=ignore)
