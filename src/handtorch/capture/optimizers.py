"""torch optimizers as ops of ours: an update is one op for all parameters that share a rate.

torch's own update code would read the learning rate as a number; here it is a tensor that lives on
the device, so that a scheduler can change it between steps without compiling again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch

from handtorch.capture.slots import Slot
from handtorch.errors import CannotCapture

Group = dict[str, Any]

_LIBRARY = torch.library.Library("handtorch", "DEF")
_UPDATES = {
    "sgd": "float momentum, bool nesterov",
    "adam": "float beta1, float beta2, float eps, bool decoupled",
    "rmsprop": "float alpha, float eps, float momentum, bool centered",
    "adagrad": "float eps",
}


def _like_all(w: list[torch.Tensor], g: list[torch.Tensor], c: torch.Tensor,
              moments: list[torch.Tensor], *_: Any) -> list[torch.Tensor]:
    """New weights, then new moments. Of those each weight has as many, next to each other."""
    return [torch.empty_like(t) for t in (*w, *moments)]


for _name, _more in _UPDATES.items():
    _LIBRARY.define(f"{_name}(Tensor[] w, Tensor[] g, Tensor c, Tensor[] moments, float decay, "
                    f"bool maximize, {_more}) -> Tensor[]")
    torch.library.register_fake(f"handtorch::{_name}", _like_all, lib=_LIBRARY)
_LIBRARY.define("tick(Tensor steps, Tensor lr, float beta1, float beta2, float decay, "
                "float lr_decay) -> (Tensor, Tensor)")
torch.library.register_fake("handtorch::tick", lambda t, lr, *_: (
    torch.empty_like(t), lr.new_empty((3,))), lib=_LIBRARY)


@dataclass(frozen=True)
class Moment:
    """One tensor of optimizer state: our name for it, and where torch keeps it."""

    name: str
    optimizer: int
    key: str                              # in optimizer.state[param]
    params: tuple[torch.Tensor, ...]      # one, or all that share a step counter
    start: torch.Tensor
    fill: float | None = None             # what torch would fill it with; `start` is empty then


@dataclass(frozen=True)
class Rule:
    """How one torch optimizer is done here.

    `settings` are worked into the program; `moments` names the state a group keeps per parameter;
    `extra` gives what the update op takes beside weight decay and maximize; `tick` gives beta1,
    beta2, decoupled decay and lr_decay where the update depends on the number of steps."""

    op: str
    settings: tuple[str, ...]
    moments: Callable[[Group], list[str]]
    extra: Callable[[Group], tuple[Any, ...]]
    tick: Callable[[Group], tuple[float, ...]] | None = None


def _adam_moments(group: Group) -> list[str]:
    return ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * bool(group["amsgrad"])]


def _rmsprop_moments(group: Group) -> list[str]:
    return ["square_avg", *["grad_avg"] * bool(group["centered"]),
            *["momentum_buffer"] * (group["momentum"] > 0)]


_COMMON = ("weight_decay", "maximize", "differentiable")
_ADAM = Rule("adam", (*_COMMON, "betas", "eps", "amsgrad", "decoupled_weight_decay"),
             _adam_moments,
             lambda g: (*map(float, g["betas"]), float(g["eps"]),
                        bool(g["decoupled_weight_decay"])),
             lambda g: (*map(float, g["betas"]), float(g["weight_decay"]), 0.0))
RULES: Mapping[type, Rule] = {
    torch.optim.SGD: Rule(
        "sgd", (*_COMMON, "momentum", "nesterov", "dampening"),
        lambda g: ["momentum_buffer"] * bool(g["momentum"]),
        lambda g: (float(g["momentum"]), bool(g["nesterov"]))),
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
    torch.optim.RMSprop: Rule(
        "rmsprop", (*_COMMON, "alpha", "eps", "momentum", "centered"), _rmsprop_moments,
        lambda g: (float(g["alpha"]), float(g["eps"]), float(g["momentum"]), bool(g["centered"])),
        lambda g: (0.0, 0.0, 0.0, 0.0)),
    torch.optim.Adagrad: Rule(
        "adagrad", (*_COMMON, "eps", "lr_decay"), lambda g: ["sum"],
        lambda g: (float(g["eps"]),), lambda g: (0.0, 0.0, 0.0, float(g["lr_decay"]))),
}


def rule_of(optimizer: torch.optim.Optimizer) -> Rule:
    """The rule for this optimizer; refuses one we do not know, and options that change results."""
    kind = type(optimizer)
    if kind not in RULES:
        raise CannotCapture(f"optimizer {kind.__name__}",
                            why="known are " + ", ".join(k.__name__ for k in RULES),
                            fix="one of these from torch.optim; a class of your own, also one "
                                "derived from them, may compute something else")
    hooks = (*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks)
    if hooks:
        raise CannotCapture(f"{kind.__name__} with step hooks",
                            why=f"{len(hooks)} registered; they would not run on the device",
                            fix="put what they do into the step")
    rule = RULES[kind]
    for group in optimizer.param_groups:
        _check(kind.__name__, group, rule)
    return rule


def _check(name: str, group: Group, rule: Rule) -> None:
    if group.get("dampening"):
        raise CannotCapture(f"{name} with dampening", why=f"dampening = {group['dampening']}",
                            fix="dampening=0")
    if group["differentiable"]:
        raise CannotCapture(f"{name} with differentiable=True",
                            why="nothing can be differentiated through a step on the device",
                            fix="differentiable=False")
    betas = group.get("betas", ())
    if any(isinstance(x, torch.Tensor) for x in (group["lr"], *betas)):
        raise CannotCapture(f"{name} with a tensor as learning rate or beta",
                            why="numbers are worked into the program or written to the device",
                            fix="plain numbers; the learning rate may change between steps")
    if not isfinite(group["lr"]):
        raise CannotCapture(f"{name} with lr = {group['lr']}", why="no weight would survive it",
                            fix="a finite learning rate")


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """For each group what is worked into the program, and so may not change afterwards."""
    keys = rule_of(optimizer).settings
    return [{k: group[k] for k in keys if k in group} for group in optimizer.param_groups]


def state_of(optimizers: Sequence[torch.optim.Optimizer], slots: Sequence[Slot]
             ) -> tuple[list[Moment], list[str]]:
    """What the optimizers keep for each parameter, and the names of their learning rates."""
    named = {id(s.tensor): s.name for s in slots}
    moments, rates = list[Moment](), list[str]()
    for number, optimizer in enumerate(optimizers):
        prefix = f"optimizer{number}" if len(optimizers) > 1 else "optimizer"
        moments += moments_of(optimizer, number, named, prefix)
        rates += [f"{prefix}.{index}.lr" for index in range(len(optimizer.param_groups))]
    return moments, rates


def moments_of(optimizer: torch.optim.Optimizer, number: int, named: Mapping[int, str],
               prefix: str) -> list[Moment]:
    """Every tensor of state, in the order of the parameters, with its value so far.

    What torch would make at the first step starts as torch would make it; torch's own state is
    not touched. Parameters with the same number of steps share one counter."""
    rule = rule_of(optimizer)
    found = []
    for index, group in enumerate(optimizer.param_groups):
        for p in group["params"]:
            if id(p) not in named:
                raise CannotCapture(f"a parameter of shape {list(p.shape)} of the optimizer",
                                    why="it belongs to none of the models given",
                                    fix="pass every model whose parameters are trained")
        trained = [p for p in group["params"] if p.requires_grad]
        if rule.tick is not None:
            found += _counters(optimizer, number, trained, f"{prefix}.{index}.step")
        for p in trained:
            state = optimizer.state.get(p, {})
            for key in rule.moments(group):
                start, fill = state.get(key), None
                if start is None:               # never touched: a large model's moments are large
                    start, fill = torch.empty_like(p), group.get("initial_accumulator_value", 0)
                found.append(Moment(f"{prefix}.{key}.{named[id(p)]}", number, key, (p,),
                                    start.detach(), fill))
    return found


def _counters(optimizer: torch.optim.Optimizer, number: int, params: Sequence[torch.Tensor],
              name: str) -> list[Moment]:
    by_steps: dict[float, list[torch.Tensor]] = {}
    for p in params:
        by_steps.setdefault(float(optimizer.state.get(p, {}).get("step", 0)), []).append(p)
    return [Moment(f"{name}{i or ''}", number, "step", tuple(members),
                   torch.tensor(steps, dtype=torch.float32))
            for i, (steps, members) in enumerate(by_steps.items())]


class Updates:
    """What the optimizers did while the step ran: whether any did something, and which parameters
    each counter counted for."""

    def __init__(self) -> None:
        self.counted: dict[int, list[torch.Tensor]] = {}
        self.ran = False

    def run(self, optimizer: torch.optim.Optimizer, rates: Sequence[torch.Tensor],
            gradient: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
        """What `optimizer.step()` does while captured; parameters are written with `copy_`, so
        that code after it in the same step sees the new ones."""
        rule = rule_of(optimizer)
        with torch.no_grad():
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                together: dict[int, list[torch.Tensor]] = {}
                for p in group["params"]:
                    if gradient(p) is not None:
                        counter = optimizer.state[p].get("step")
                        together.setdefault(id(counter), []).append(p)
                for params in together.values():
                    c = self._coefficients(optimizer, rule, params, rate, group)
                    _update(rule, params, [gradient(p) for p in params], c, optimizer.state, group)

    def _coefficients(self, optimizer: torch.optim.Optimizer, rule: Rule,
                      params: list[torch.Tensor], rate: torch.Tensor, group: Group
                      ) -> torch.Tensor:
        if rule.tick is None:
            return rate
        counter = optimizer.state[params[0]]["step"]
        before = self.counted.setdefault(id(counter), params)
        if [id(p) for p in before] != [id(p) for p in params]:
            raise CannotCapture(
                f"{type(optimizer).__name__}.step() twice in one step",
                why=f"first {len(before)} parameters had gradients, then {len(params)} or others; "
                    "they share one step counter",
                fix="a parameter group for each set that is updated alone")
        steps, c = torch.ops.handtorch.tick(counter, rate, *rule.tick(group))
        counter.copy_(steps)
        return c  # type: ignore[no-any-return]


def _update(rule: Rule, params: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None],
            c: torch.Tensor, state: Mapping[Any, Mapping[str, torch.Tensor]], group: Group
            ) -> None:
    for g in grads:
        assert g is not None
        if g.layout != torch.strided:
            raise CannotCapture(f"a sparse gradient of shape {list(g.shape)}",
                                why="the update rules here go over whole tensors",
                                fix="sparse=False in the layer that makes it")
    moments = [state[p][key] for p in params for key in rule.moments(group)]
    op = getattr(torch.ops.handtorch, rule.op)
    new = op(params, grads, c, moments, float(group["weight_decay"]), bool(group["maximize"]),
             *rule.extra(group))
    for old, value in zip((*params, *moments), new, strict=True):
        old.copy_(value)
