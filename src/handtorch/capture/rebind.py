"""Optimizers and gradients while a step is traced: stand-ins in, the user's own back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from handtorch.capture.lines import Lines
from handtorch.capture.optimizers import Moment, Updates
from handtorch.errors import CannotCapture


class Gradients:
    """What lies in `.grad` when the step begins: stand-ins for what the last call left there.

    They make the step's use of them visible in the graph. A parameter that no backward has reached
    has no gradient in truth, as in torch after the first `zero_grad`."""

    def __init__(self, twins: Sequence[torch.Tensor], before: Sequence[torch.Tensor]) -> None:
        self._before = {id(t): g for t, g in zip(twins, before, strict=True)}
        self._reached: set[int] = set()
        for twin, grad in zip(twins, before, strict=True):
            twin.grad = grad
            twin.register_post_accumulate_grad_hook(lambda t: self._reached.add(id(t)))

    def of(self, p: torch.Tensor) -> torch.Tensor | None:
        if id(p) not in self._reached and p.grad is self._before.get(id(p)):
            return None
        return p.grad


@contextmanager
def rebound(optimizers: Sequence[torch.optim.Optimizer], twin_of: dict[int, torch.Tensor],
            kept: Sequence[tuple[Moment, torch.Tensor]], lrs: Sequence[torch.Tensor],
            gradients: Gradients, lines: Lines) -> Iterator[Updates]:
    """Optimizers hold the twins and the traced state, and `step` is our update."""
    saved = [(o, o.state, [list(g["params"]) for g in o.param_groups], o.__dict__.get("step"))
             for o in optimizers]
    rates, updates = iter(lrs), Updates()
    numbers = [[g["lr"] for g in o.param_groups] for o in optimizers]
    strangers = register_optimizer_step_pre_hook(_not_given)
    try:
        for number, o in enumerate(optimizers):
            mine = [next(rates) for _ in o.param_groups]
            state: dict[Any, dict[str, Any]] = {}
            for group in o.param_groups:
                group["params"] = [twin_of[id(p)] for p in group["params"]]
                state |= {p: {} for p in group["params"]}
            for moment, tensor in kept:
                if moment.optimizer == number:
                    for p in moment.params:
                        state[twin_of[id(p)]][moment.key] = tensor
            o.state = state  # type: ignore[assignment]
            o.__dict__["step"] = _step(o, mine, gradients, updates, lines)
        yield updates
        _rates_stayed(optimizers, numbers)
        if optimizers and not updates.ran:
            raise CannotCapture("a step that updates nothing",
                                why=f"none of the {len(optimizers)} optimizer(s) given takes a "
                                    "step, and gradients do not last from call to call",
                                fix="optimizer.step() after backward(); for a step that only looks,"
                                    " optimizers=[]")
    finally:
        strangers.remove()
        for (o, state_before, params, step_before), before in zip(saved, numbers, strict=True):
            o.__dict__.pop("step", None)
            if step_before is not None:             # a scheduler had wrapped it
                o.__dict__["step"] = step_before
            o.state = state_before
            for group, own, lr in zip(o.param_groups, params, before, strict=True):
                group["params"], group["lr"] = own, lr


def _not_given(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    raise CannotCapture(f"a step of {type(optimizer).__name__}, which was not given",
                        why="its parameters and state are not on the device",
                        fix="train_step(fn, models=[...], optimizers=[...]) with all that fn uses")


def _rates_stayed(optimizers: Sequence[torch.optim.Optimizer], before: list[list[Any]]) -> None:
    for o, rates in zip(optimizers, before, strict=True):
        now = [g["lr"] for g in o.param_groups]
        if now != rates:
            raise CannotCapture(f"the learning rate of {type(o).__name__} changes inside the step",
                                why=f"from {rates} to {now}, once, when the step was captured",
                                fix="scheduler.step() after each call of the step, outside of it")


def _step(o: torch.optim.Optimizer, rates: list[torch.Tensor], gradients: Gradients,
          updates: Updates, lines: Lines) -> Callable[..., None]:
    def step(closure: Any = None) -> None:
        if closure is not None:
            raise CannotCapture("optimizer.step(closure)", why="a closure runs the model again",
                                fix="call backward() first and step() without arguments")
        before, lines.phase = lines.phase, "optimizer"
        updates.ran = True
        updates.run(o, rates, gradients.of)
        lines.phase = before
    return step
