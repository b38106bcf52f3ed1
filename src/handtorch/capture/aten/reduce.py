"""Reductions, softmax and class losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handtorch.capture.builder import Builder, Result, aten
from handtorch.graph.node import Value

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}

KEEP: tuple[str, ...] = ("_log_softmax", "_softmax", "_log_softmax_backward_data",
                         "nll_loss_forward", "nll_loss_backward")


@aten("sum.default", "sum.dim_IntList")
def _sum(b: Builder, x: Value, axes: Sequence[int] | None = None, keepdim: bool = False) -> Value:
    rank = len(x.shape)
    every = tuple(range(rank)) if not axes else tuple(sorted(a % rank for a in axes))
    return b.one("sum", (x,), axes=every, keepdim=keepdim)


@aten("_softmax.default", "_log_softmax.default")
def _softmax(b: Builder, x: Value, axis: int, half_to_float: bool, *, op: str) -> Value:
    if axis % len(x.shape) != len(x.shape) - 1:
        raise b.refuse(f"{op} over axis {axis} of {x}", "only the last axis is known yet",
                       "move that axis to the end")
    return b.one(op, (x,))


@aten("_log_softmax_backward_data.default")
def _log_softmax_grad(b: Builder, g: Value, y: Value, axis: int, _: Any) -> Value:
    return b.one("log_softmax_grad", (g, y))


def _class_loss(b: Builder, weight: Any, reduction: int, logp: Value) -> str:
    if weight is not None:
        raise b.refuse("cross-entropy with class weights", "not known yet")
    if _REDUCTIONS[reduction] == "none" or len(logp.shape) != 2:
        raise b.refuse(f"cross-entropy of {logp} with reduction '{_REDUCTIONS[reduction]}'",
                       "known: [rows, classes] with 'mean' or 'sum'")
    return _REDUCTIONS[reduction]


@aten("nll_loss_forward.default")
def _nll_loss(b: Builder, logp: Value, target: Value, weight: Any, reduction: int, ignore: int
              ) -> Result:
    kind = _class_loss(b, weight, reduction, logp)
    return b.one("nll_loss", (logp, target), reduction=kind, ignore=ignore), None


@aten("nll_loss_backward.default")
def _nll_loss_grad(b: Builder, g: Value, logp: Value, target: Value, weight: Any, reduction: int,
                   ignore: int, _total: Any) -> Value:
    kind = _class_loss(b, weight, reduction, logp)
    return b.one("nll_loss_grad", (g, target), shape=logp.shape, reduction=kind, ignore=ignore)
