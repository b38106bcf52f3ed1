"""torch optimizers as ops of ours: the update rule is one op per parameter.

torch's own update code would read the learning rate as a number; here it is a tensor that lives on
the device, so that a scheduler can change it between steps without compiling again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from handtorch.errors import CannotCapture

_LIBRARY = torch.library.Library("handtorch", "DEF")
_LIBRARY.define("sgd(Tensor w, Tensor g, Tensor lr, Tensor? m, float momentum, float decay, "
                "bool nesterov, bool maximize) -> (Tensor, Tensor)")


def _sgd_shapes(w: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, m: torch.Tensor | None,
                momentum: float, decay: float, nesterov: bool, maximize: bool
                ) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(w), torch.empty_like(w)


torch.library.register_fake("handtorch::sgd", _sgd_shapes, lib=_LIBRARY)


@dataclass(frozen=True)
class Moment:
    """One tensor of optimizer state: where torch keeps it, and our name for it."""

    name: str
    param: torch.Tensor
    key: str                       # in optimizer.state[param]


def moments_of(optimizer: torch.optim.Optimizer, named: dict[int, str], prefix: str
               ) -> list[Moment]:
    """Makes sure that state exists (zeros) and lists it in the order of the parameters."""
    _rule(optimizer)
    found = []
    for group in optimizer.param_groups:
        if not group["momentum"]:
            continue
        for p in group["params"]:
            if p.requires_grad:
                # With zeros the first step equals torch's only because dampening is refused.
                state = optimizer.state[p]
                if state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.zeros_like(p)
                name = f"{prefix}.momentum_buffer.{named.get(id(p), 'unnamed')}"
                found.append(Moment(name, p, "momentum_buffer"))
    return found


def _rule(optimizer: torch.optim.Optimizer) -> Callable[..., None]:
    if type(optimizer) is not torch.optim.SGD:
        raise CannotCapture(f"optimizer {type(optimizer).__name__}",
                            why="only torch.optim.SGD is known so far",
                            fix="torch.optim.SGD(params, lr, momentum=..., weight_decay=...)")
    for group in optimizer.param_groups:
        if group["dampening"]:
            raise CannotCapture("SGD with dampening", why=f"dampening = {group['dampening']}",
                                fix="dampening=0")
        if isinstance(group["lr"], torch.Tensor):
            raise CannotCapture("SGD with a tensor as learning rate",
                                fix="a plain number; it may change between steps")
    return _sgd


def update(optimizer: torch.optim.Optimizer, rates: Sequence[torch.Tensor]) -> None:
    """What `optimizer.step()` does while captured; parameters are written with `copy_`, so that
    code after it in the same step sees the new ones."""
    rule = _rule(optimizer)
    with torch.no_grad():
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            for p in group["params"]:
                if p.grad is not None:
                    rule(p, p.grad, rate, optimizer.state[p], group)


def _sgd(p: torch.Tensor, g: torch.Tensor, rate: torch.Tensor, state: dict[str, Any],
         group: dict[str, Any]) -> None:
    momentum = state.get("momentum_buffer") if group["momentum"] else None
    new, moved = torch.ops.handtorch.sgd(
        p, g, rate, momentum, float(group["momentum"]), float(group["weight_decay"]),
        bool(group["nesterov"]), bool(group["maximize"]))
    p.copy_(new)
    if momentum is not None:
        momentum.copy_(moved)
