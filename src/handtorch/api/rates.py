"""Learning rates follow the torch optimizer; nothing else in it may change."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import Any

from handtorch.errors import BadInput


def checked_rate(rate: Any, what: str) -> float:
    if isinstance(rate, Real) and isfinite(rate):
        return float(rate)
    raise BadInput(f"{what} is now {rate!r}", why="a learning rate is a finite number",
                   fix="look at what changes it, a scheduler or your own code")


class FollowedGroup:
    """A parameter group of a torch optimizer, watched for changes before every step."""

    def __init__(self, follow: Any) -> None:
        self.state: str = follow.rate
        self._follow, self._count = follow, len(follow.optimizer.param_groups)
        self._group = follow.optimizer.param_groups[follow.index]
        self.rate = float(self._group["lr"])

    def asked(self) -> float:
        """What the torch optimizer has now; the device gets it with the next step."""
        return self._checked(self._group["lr"])

    def ask(self, rate: float) -> None:
        """As if the user had written it into the torch optimizer."""
        self._group["lr"] = rate

    def moved(self) -> bool:
        """Whether the learning rate is another than last time; refuses any other change."""
        self._check()
        if self._group["lr"] == self.rate:
            return False
        self.rate = self._checked(self._group["lr"])
        return True

    def _checked(self, rate: Any) -> float:
        name = type(self._follow.optimizer).__name__
        return checked_rate(rate, f"{name}.param_groups[{self._follow.index}]['lr']")

    def _check(self) -> None:
        follow = self._follow
        groups, name = follow.optimizer.param_groups, type(follow.optimizer).__name__
        if len(groups) != self._count or groups[follow.index] is not self._group:
            raise BadInput(f"the parameter groups of {name} were replaced after capture",
                           why="the device holds the state it was captured with",
                           fix="load_state_dict and add_param_group first, then train_step")
        for key, before in follow.settings.items():
            if self._group[key] != before:
                raise BadInput(f"{name}.param_groups[{follow.index}][{key!r}] is now "
                               f"{self._group[key]!r}",
                               why=f"the step was compiled with {before!r}",
                               fix="make the step again; only lr may change between steps "
                                   "(a scheduler's cycle_momentum=False)")
