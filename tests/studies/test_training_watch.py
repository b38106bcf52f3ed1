"""Steps measured beside sensors: what becomes of their rows, and that times are those of steps."""

from __future__ import annotations

import time

import pytest

from handtorch.profile.collect import HOST_CLOCK
from handtorch.profile.usage import usage_rows
from handtorch.record import Energy, Launch, Missing, Run, RunInfo, Sample, Signal, Step
from handtorch.studies.training_cells import Cell, Kind, Memory, Power, Use
from handtorch.studies.training_rows import rows_of
from handtorch.studies.training_run import Measured
from handtorch.studies.training_watch import Length, over_steps, power_of, use_of, watched

INFO = RunInfo(id="0", command="test", started_utc="2019", duration_ns=0, status="complete")
S = 10**9


def busy(core: str, *seconds: float) -> tuple[Signal, list[Sample]]:
    """A counter read every second from time 0 on."""
    signal = Signal(meter="procfs", quantity=f"{core}_busy_s", kind="counter", part=core,
                    every_ns=S, step=0.01)
    return signal, [Sample(time_ns=i * S, clock=HOST_CLOCK, meter="procfs",
                           quantity=signal.quantity, value=v, provenance="measured")
                    for i, v in enumerate(seconds)]


def run_of(*counters: tuple[Signal, list[Sample]]) -> Run:
    """Ten steps of a second each, from 10 s to 20 s."""
    spans = [(10 * S + i * S, 11 * S + i * S) for i in range(10)]
    steps = tuple(Step(id=i, place="here", subject="step", number=i, kind="training",
                       clock=HOST_CLOCK, start_ns=a, end_ns=b, provenance="measured")
                  for i, (a, b) in enumerate(spans))
    launches = tuple(Launch(step=i, number=0, kernel="step", op="step", phase="training",
                            clock=HOST_CLOCK, queued_ns=a, submit_ns=a, start_ns=a, end_ns=b,
                            flops=None, moved_bytes=None, work_reason="a step",
                            provenance="measured") for i, (a, b) in enumerate(spans))
    return Run(INFO, steps=steps, launches=launches, signals=tuple(s for s, _ in counters),
               samples=tuple(x for _, samples in counters for x in samples))


def test_use_of_cores_is_their_share_of_the_steps() -> None:
    half, full = [0.5 * i for i in range(22)], [float(i) for i in range(22)]
    run = run_of(busy("cpu0", *half), busy("cpu1", *full))
    use = use_of(usage_rows(run), (1.0,) * 10)
    assert use.cores == pytest.approx({"cpu0": 0.5, "cpu1": 1.0})
    assert use.idle == pytest.approx({"cpu0": 0.5, "cpu1": 0.0})
    assert use.mean_core == pytest.approx(0.75)
    assert (use.time_error, use.device) == (0.0, None)
    over = over_steps(run, 10 * S, 13 * S)
    assert over["cpu0"] == [(0.5, 0.5), (1.5, 0.5), (2.5, 0.5)]


def test_use_that_was_not_read_is_unknown_with_a_reason() -> None:
    use = use_of(usage_rows(run_of(busy("cpu0", 0.0, 1.0))), (1.0, 2.0))
    assert use.mean_core is None
    assert use.missing == "it was not read before the first step and after the last"


def test_joules_are_those_of_a_step_by_rail_and_have_their_provenance() -> None:
    rail = Energy(place="here", subject="step", meter="ina", quantity="gpu_w", level="rail",
                  name="", instances=10, seconds=10.0, readings=5, total_j=30.0, dynamic_j=None,
                  dynamic_reason="idle is not known", how="mean", provenance="simulated")
    signal = Signal(meter="ina", quantity="gpu_w", kind="instant", part="gpu", every_ns=S)
    found = power_of(Run(INFO, signals=(signal,)), [rail])
    assert found == Power({"ina gpu_w": 3.0}, {"ina gpu_w": "gpu"}, None, "simulated", "")


def test_without_a_sensor_it_is_said_which_was_looked_for() -> None:
    found = power_of(Run(INFO), [Missing(source="rapl", why="no /sys/class/powercap"),
                                 Missing(source="thermal", why="none")])
    assert not found.joules
    assert found.missing == "no sensor of power here (rapl: no /sys/class/powercap)"


def test_at_least_three_steps_are_measured_and_none_after_the_time() -> None:
    found = watched(lambda i: time.sleep(0.002), Length(steps=3, seconds=0.0))
    assert len(found.step_s) == 3 and min(found.step_s) >= 0.002
    one = watched(lambda i: time.sleep(0.02), Length(steps=3, seconds=1.0, most_s=0.01))
    assert len(one.step_s) == 1                 # a minute was over, as it were


def test_rows_say_why_a_cell_was_not_run_and_draw_one_model_over_time() -> None:
    over = {"cpu0": [(0.5, 0.25)]}
    ran = Cell(Kind("InceptionV1"), 4, "device", "measured", step_s=(1.0, 1.0),
               memory=Memory(1, 1, 1), use=Use(over=over))
    first = Cell(Kind("DQN"), 4, "device", "measured", step_s=(1.0, 1.0), use=Use(over=over))
    late = Cell(Kind("BERT"), 64, "device", "not run", "about 999 s are predicted", 999.0)
    rows = list(rows_of(Measured([], [first, ran, late], {}), "pocl"))
    (row,) = [r for r in rows if r.subject == "BERT"]
    assert (row.value, row.value_reason) == (None, "not run: about 999 s are predicted")
    (drawn,) = [r for r in rows if r.name.startswith("use over three steps")]
    assert (drawn.name, drawn.subject, drawn.x_value, drawn.value) == (
        "use over three steps, InceptionV1 b4", "cpu0", 0.5, 25.0)
