"""Each of the twelve observations on made-up runs where it holds, fails, and cannot be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from handtorch.profile.memory import INTERMEDIATES, PARAMETERS
from handtorch.studies.training_cells import Cell, Kind, Memory, Planned, Power, Side, Use
from handtorch.studies.training_observations import OBSERVATIONS, Day, Finding, Seen, judged

GPU, MEMORY = "ina gpu_w", "ina ddr_w"


def cell(model: str = "ResNet50", batch: int = 4, rate: float = 10.0, *, side: Side = "device",
         use: Use | None = None, power: Power | None = None,
         roles: Mapping[str, int] | None = None) -> Cell:
    memory = None if roles is None else Memory(0, 0, 0, planned_bytes=1, roles=roles)
    return Cell(Kind(model), batch, side, "measured", step_s=(batch / rate,) * 3,
                use=use or Use(), power=power or Power(), memory=memory)


def plan(batch: int, held: int | None, model: str = "ResNet50") -> Planned:
    return Planned(Kind(model), batch, 100, held, held, 1.0, 1.0, 1, 1, 1)


def used(device: float | None, core: float = 0.3, **more: Any) -> Use:
    return Use(cores={"cpu0": core, "cpu1": core}, device=device, **more)


def drew(gpu: float, memory: float, error: float | None = None, word: str = "measured") -> Power:
    return Power({GPU: gpu, MEMORY: memory}, {GPU: "gpu", MEMORY: "memory"}, error, word)


def days(*training: float, batch: int = 4, seed: int = 0) -> tuple[Day, ...]:
    return tuple(Day(batch, seed, i, t, 0.5) for i, t in enumerate(training))


def two(first: Cell, second: Cell, **more: Any) -> Seen:
    return Seen((first, second), **more)


NO_POWER = Seen((cell(power=Power(missing="no sensor of power here")),))
ESTIMATED = Seen((cell(power=drew(2, 1, 0.01, "estimated")),))
GROWING = two(cell(roles={PARAMETERS: 10, INTERMEDIATES: 20}),
              cell(batch=16, roles={PARAMETERS: 10, INTERMEDIATES: 70}),
              plans=(plan(4, 50), plan(256, 500)))
CASES: tuple[tuple[int, str, Seen, bool | None], ...] = (
    (1, "device 90 %, cores 30 %", Seen((cell(use=used(0.9)),)), True),
    (1, "device 35 %, cores 30 %", Seen((cell(use=used(0.35)),)), False),
    (1, "the device is the CPU", Seen((cell(use=used(0.9)),), same_silicon=True), None),
    (1, "use is not known", Seen((cell(use=used(None)),)), None),
    (2, "2 % of time, 3 % of use", Seen((cell(use=Use(time_error=0.02, use_error=0.03)),)), True),
    (2, "time alone is known", Seen((cell(use=Use(time_error=0.02)),)), True),
    (2, "30 % of time", Seen((cell(use=Use(time_error=0.3, use_error=0.03)),)), False),
    (2, "30 % of use", Seen((cell(use=Use(time_error=0.02, use_error=0.3)),)), False),
    (2, "one step", Seen((cell(),)), None),
    (3, "+12 points, cores +1", two(cell(use=used(0.8, 0.3)), cell(batch=64, use=used(0.92, 0.31))),
     True),
    (3, "+2 points, cores +10", two(cell(use=used(0.8, 0.3)), cell(batch=64, use=used(0.82, 0.4))),
     False),
    (3, "one batch", Seen((cell(use=used(0.8)),)), None),
    (3, "the device is the CPU", two(cell(use=used(0.8)), cell(batch=64, use=used(0.9)),
                                     same_silicon=True), None),
    (4, "60 % and 10 %", Seen((cell(use=Use(cores={"cpu0": 0.6, "cpu1": 0.1})),)), True),
    (4, "60 % and 58 %", Seen((cell(use=Use(cores={"cpu0": 0.6, "cpu1": 0.58})),)), False),
    (4, "one core", Seen((cell(use=Use(cores={"cpu0": 0.6})),)), None),
    (5, "95 % and 25 %", two(cell(use=used(0.95)), cell("CharCNN", use=used(0.25))), True),
    (5, "95 % and 93 %", two(cell(use=used(0.95)), cell("CharCNN", use=used(0.93))), False),
    (5, "no recurrent net", Seen((cell(use=used(0.95)),)), None),
    (6, "2 and 0.5", two(cell(power=drew(2, 1)), cell("CharCNN", power=drew(1, 2))), True),
    (6, "2 and 2", two(cell(power=drew(2, 1)), cell("CharCNN", power=drew(2, 1))), False),
    (6, "estimated", ESTIMATED, None),
    (6, "no sensor", NO_POWER, None),
    (7, "3 %", Seen((cell(power=drew(2, 1, 0.03)),)), True),
    (7, "30 %", Seen((cell(power=drew(2, 1, 0.3)),)), False),
    (7, "estimated", ESTIMATED, None),
    (7, "no sensor", NO_POWER, None),
    (8, "3 for 16", two(cell(power=drew(2, 1)), cell(batch=64, power=drew(6, 3))), True),
    (8, "20 for 16", two(cell(power=drew(2, 1)), cell(batch=64, power=drew(40, 20))), False),
    (8, "less than before", two(cell(power=drew(2, 1)), cell(batch=64, power=drew(1, 1))), False),
    (8, "estimated", ESTIMATED, None),
    (8, "no sensor", NO_POWER, None),
    (9, "256 does not fit", GROWING, True),
    (9, "all fit", Seen(GROWING.cells, (plan(4, 50), plan(256, 60))), False),
    (9, "nothing grows", two(cell(roles={PARAMETERS: 10, INTERMEDIATES: 20}),
                             cell(batch=16, roles={PARAMETERS: 10, INTERMEDIATES: 20}),
                             plans=GROWING.plans), False),
    (9, "parameters grow too", two(cell(roles={PARAMETERS: 10, INTERMEDIATES: 20}),
                                   cell(batch=16, roles={PARAMETERS: 40, INTERMEDIATES: 80}),
                                   plans=GROWING.plans), False),
    (9, "one batch", Seen(GROWING.cells[:1], GROWING.plans), None),
    (10, "6 times", two(cell(), cell(batch=64, rate=60)), True),
    (10, "slower", two(cell(), cell(batch=64, rate=9)), False),
    (10, "torch alone", two(cell(side="torch"), cell(batch=64, rate=60, side="torch")), None),
    (11, "15 and 1.7", Seen((cell(), cell(batch=64, rate=17), cell("DQN"),
                             cell("DQN", 64, 150))), True),
    (11, "2 and 1.9", Seen((cell(), cell(batch=64, rate=20), cell("DQN"),
                            cell("DQN", 64, 19))), False),
    (11, "one model", two(cell(), cell(batch=64, rate=20)), None),
    (12, "slowly up", Seen(days=days(0.60, 0.61) + days(0.60, 0.62, seed=1)), True),
    (12, "down", Seen(days=days(0.60, 0.58) + days(0.60, 0.59, seed=1)), False),
    (12, "up and down", Seen(days=days(0.60, 0.64) + days(0.60, 0.57, seed=1)), False),
    (12, "no days", Seen(), None),
)


@pytest.mark.parametrize(("number", "case", "seen", "holds"), CASES,
                         ids=[f"{n} {case}" for n, case, _, _ in CASES])
def test_observation(number: int, case: str, seen: Seen, holds: bool | None) -> None:
    _, judge = OBSERVATIONS[number - 1]
    found = judge(seen)
    assert found.holds is holds, found.figures
    assert found.figures.endswith(".")
    assert bool(found.reason) == (holds is None)


def test_every_observation_has_all_three_answers_above() -> None:
    for number in range(1, 13):
        assert {holds for n, _, _, holds in CASES if n == number} == {True, False, None}, number


def test_without_anything_nothing_is_judged() -> None:
    assert [judge(Seen()).holds for _, judge in OBSERVATIONS] == [None] * 12


def test_the_deciding_figures_are_told() -> None:
    found = OBSERVATIONS[10][1](Seen((cell(), cell(batch=64, rate=17), cell("DQN"),
                                      cell("DQN", 64, 153))))
    assert found == Finding(True, "For 16 times the batch 15.30 times as many samples a second "
                            "(DQN) and 1.70 times (ResNet50): a factor of 9.00 between them (the "
                            "paper: 15.3 and 1.7).")


def test_beside_other_programs_times_are_told_and_not_judged() -> None:
    cells = [replace(c, others=0.4) for c in (cell(), cell(batch=64, rate=60))]
    found = judged(Seen(tuple(cells), GROWING.plans))[9]
    assert found.holds is None and "6.00 to 6.00 times" in found.figures
    assert found.reason == "other programs used 40% of this machine's cores meanwhile: run it again"
    quiet = [replace(c, others=0.01) for c in cells]
    assert judged(Seen(tuple(quiet)))[9].holds is True
    loud = tuple(replace(c, others=0.4) for c in GROWING.cells)
    assert judged(replace(GROWING, cells=loud))[8].holds is True    # memory is no matter of time


def test_cells_that_were_not_run_decide_nothing() -> None:
    not_run = Cell(Kind("ResNet50"), 64, "device", "not run", "over three minutes", 400.0)
    assert OBSERVATIONS[9][1](two(cell(), not_run)).holds is None
