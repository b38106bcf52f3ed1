from __future__ import annotations

import random

import pytest

from handtorch.profile.audit import audit, compared


class Machine:
    """A clock, a step that takes 1 ms give or take `noise`, and recording that adds `cost_ns`."""

    def __init__(self, cost_ns: int, noise: float) -> None:
        self.now, self.on, self.cost_ns, self.noise = 0, False, cost_ns, noise
        self.turns: list[bool] = []
        self._draw = random.Random(7)

    def switch(self, on: bool) -> None:
        self.on = on

    def step(self) -> None:
        self.turns.append(self.on)
        drift = 1 + self.now / 1e9                      # it gets slower and slower
        self.now += int(1_000_000 * drift * self._draw.uniform(1, 1 + self.noise))
        self.now += self.cost_ns if self.on else 0


def audited(machine: Machine, pairs: int) -> tuple[float, float | None, float | None]:
    both = audit(machine.step, machine.switch, pairs, wall=lambda: machine.now,
                 cpu=lambda: 2 * machine.now)
    assert both.cpu == both.wall                        # ratios do not care for the unit
    return both.wall.percent, both.wall.low, both.wall.high


def test_a_planted_cost_is_found_though_the_machine_slows_down() -> None:
    percent, low, high = audited(Machine(50_000, 0.02), 200)
    assert low is not None and high is not None
    assert 3.0 < low < percent < high < 6.0


def test_no_cost_is_not_told_from_none() -> None:
    _, low, high = audited(Machine(0, 0.05), 100)
    assert low is not None and high is not None and low < 0 < high


def test_each_pair_has_both_and_the_order_is_drawn() -> None:
    machine = Machine(0, 0)
    audited(machine, 50)
    pairs = list(zip(machine.turns[::2], machine.turns[1::2], strict=True))
    assert set(pairs) == {(True, False), (False, True)}
    again = Machine(0, 0)
    audited(again, 50)
    assert again.turns == machine.turns


@pytest.mark.parametrize(("pairs", "known"), [(1, False), (8, False), (9, True)])
def test_few_pairs_give_no_interval(pairs: int, known: bool) -> None:
    found = compared([101] * pairs, [100] * pairs)
    assert found.percent == pytest.approx(1.0)
    assert (found.low is not None) == known == (found.high is not None)


def test_the_interval_is_that_of_the_median() -> None:
    """Of ten, the second from either end: 1 - 2 * 11 / 1024 is 97.9 %, the third 89.1 %."""
    found = compared([100 + i for i in range(10)], [100] * 10)
    assert (found.low, found.high) == (pytest.approx(1.0), pytest.approx(8.0))
