from __future__ import annotations

import math
from dataclasses import replace

import pytest

from handtorch.profile.usage import usage_rows
from handtorch.record import Result, Run, Sample, Signal, Step
from tests.profile.energy.runs import MS, PLACE, SUBJECT, launch, run

EVERY = 100


def measured(busy: dict[str, list[float | None]], tick: float = 0.01, every_ms: int = EVERY,
             steps: int = 10, first_ms: int = 0) -> Run:
    """Steps of 100 ms from 100 ms on; counters as they were read, the first at `first_ms`."""
    signals = tuple(Signal(meter="procfs", quantity=q, kind="counter", part=q.split("_")[0],
                           every_ns=every_ms * MS, step=tick) for q in busy)
    samples = tuple(
        Sample(time_ns=(first_ms + i * every_ms) * MS, clock="host", meter="procfs", quantity=q,
               value=v, value_reason="" if v is not None else "offline", provenance="measured")
        for q, values in busy.items() for i, v in enumerate(values))
    made = tuple(Step(id=i, place=PLACE, subject=SUBJECT, number=i, kind="training", clock="host",
                      start_ns=100 * (i + 1) * MS, end_ns=100 * (i + 2) * MS,
                      provenance="measured") for i in range(steps))
    ran = tuple(replace(launch(0, 0, "relu", 0, 1), step=i, start_ns=s.start_ns,
                        end_ns=s.start_ns + 50 * MS) for i, s in enumerate(made))
    return replace(run(), steps=made, launches=ran, signals=signals, samples=samples)


def figures(given: Run) -> dict[str, Result]:
    return {r.name: r for r in usage_rows(given)}


def test_cores_and_their_mean() -> None:
    found = figures(measured({"cpu0_busy_s": [7 + 0.05 * i for i in range(13)],
                              "cpu1_busy_s": [0.1 * (i // 2) for i in range(13)]}))
    first = found["utilisation cpu0"]
    assert math.isclose(first.value or 0, 0.5) and first.unit == "share"
    # a tick of 10 ms and half of the 100 ms between readings, of 1 s
    assert math.isclose(first.low or 0, 0.44) and math.isclose(first.high or 0, 0.56)
    assert math.isclose(found["idle-state ratio cpu0"].value or 0, 0.5)
    assert found["readings without use cpu0"].value == 0
    assert found["readings without use cpu1"].value == 0.5
    assert math.isclose(found["utilisation mean of cores"].value or 0, 0.5)


def test_a_core_that_was_off_has_a_reason_and_no_mean_is_given() -> None:
    found = figures(measured({"cpu0_busy_s": [0.05 * i for i in range(13)],
                              "cpu1_busy_s": [None] * 13}))
    assert found["utilisation cpu1"].value is None
    assert found["utilisation cpu1"].value_reason.startswith("it was not read before the first")
    assert "utilisation mean of cores" not in found


def test_too_short_for_the_counter() -> None:
    (row,) = usage_rows(measured({"cpu0_busy_s": [0, 0.01, 0.06, 0.07]}, steps=2))
    assert row.value is None
    assert row.value_reason == ("the steps took 0.200 s, and its counter tells 0.060 s at best: "
                                "take more steps")


def test_a_tick_taken_back_is_left_out() -> None:
    ticks: list[float | None] = [0.05 * i for i in range(13)]
    ticks[4] = 0.0
    assert math.isclose(figures(measured({"cpu0_busy_s": ticks}))["utilisation cpu0"].value or 0,
                        0.5)


def test_what_the_process_used_by_step_and_how_well_it_is_foretold() -> None:
    busy: list[float | None] = [0.015 * i for i in range(125)]
    found = figures(measured({"process_busy_s": busy}, tick=1e-9, every_ms=10))
    used = found["cores used by the process"]
    assert math.isclose(used.value or 0, 1.5) and used.unit == "cores" and used.repeats == 10
    assert math.isclose(found["error of the next step's use"].value or 0, 0, abs_tol=1e-9)


def test_a_process_that_did_nothing() -> None:
    found = figures(measured({"process_busy_s": [1.0] * 125}, tick=1e-9, every_ms=10))
    assert found["cores used by the process"].value == 0
    assert "error of the next step's use" not in found


@pytest.mark.parametrize("busy", [[1.0], []])
def test_a_process_that_was_hardly_read(busy: list[float | None]) -> None:
    (row,) = usage_rows(measured({"process_busy_s": busy}))
    assert row.value_reason == "it was not read before and after a step"


def test_steps_of_another_process_are_told_by_its_own_clock() -> None:
    """The first process was read only before the steps, and had used more by then."""
    ours: list[float | None] = [9.0, 9.1]
    given = measured({"process_busy_s": ours}, tick=1e-9, every_ms=10)
    theirs = measured({"process_busy_s": [0.015 * i for i in range(125)]}, tick=1e-9, every_ms=10)
    (row, _) = usage_rows(replace(
        given, signals=(*given.signals, replace(theirs.signals[0], meter="threads of torch")),
        samples=(*given.samples,
                 *(replace(s, meter="threads of torch") for s in theirs.samples))))
    assert row.name == "cores used by the process" and math.isclose(row.value or 0, 1.5)


def test_of_few_steps_it_is_not_known_how_well_the_next_is_foretold() -> None:
    busy: list[float | None] = [0.015 * i for i in range(125)]
    few = measured({"process_busy_s": busy}, tick=1e-9, every_ms=10, steps=5)
    found = figures(few)["error of the next step's use"]
    assert (found.value, found.value_reason) == (
        None, "it takes 10 steps to say, and here are 5")
