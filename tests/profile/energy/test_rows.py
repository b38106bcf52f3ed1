from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from handtorch.profile.energy.rows import is_energy, measured_rows
from handtorch.record import Energy, Missing, Result, Run, Sample, Signal, Step
from tests.profile.energy.runs import MS, PLACE, SUBJECT, launch, run

RAIL = Signal(meter="ina3221", quantity="in_power_w", kind="instant", part="machine",
              every_ns=10 * MS)
STEPS = 400
WATTS = {"idle": 2.0, "addmm": 8.0, "relu": 4.0}


def watts(at_ns: int) -> float:
    """Of the run below: in each step of 10 ms 1 ms idle, 4 ms addmm, 2 ms relu, 3 ms idle."""
    into = at_ns % (10 * MS) // MS
    return WATTS["addmm" if 1 <= into < 5 else "relu" if 5 <= into < 7 else "idle"]


def measured(signals: tuple[Signal, ...] = (RAIL,), every_ns: int = 2_700_000,
             scale: dict[str, float] | None = None) -> Run:
    """The run of two operations, and readings without any error."""
    scale = scale or {}
    steps = tuple(Step(id=i, place=PLACE, subject=SUBJECT, number=i, kind="training", clock="host",
                       start_ns=10 * MS * i, end_ns=10 * MS * (i + 1), provenance="measured")
                  for i in range(STEPS))
    launches = tuple(la for i in range(STEPS) for la in (
        launch(i, 0, "addmm", 1, 5), launch(i, 1, "relu", 5, 7, layer="", phase="backward")))
    samples = tuple(Sample(time_ns=int(at), clock="host", meter=s.meter, quantity=s.quantity,
                           value=scale.get(s.quantity, 1.0) * watts(int(at)),
                           provenance="simulated")
                    for s in signals for at in np.arange(-5 * MS, 10 * MS * (STEPS + 1), every_ns))
    return replace(run(), steps=steps, launches=launches, signals=signals, samples=samples)


def energies(given: Run) -> dict[tuple[str, str], Energy]:
    rows = [r for r in measured_rows(given) if isinstance(r, Energy)]
    assert len({(r.quantity, r.level, r.name) for r in rows}) == len(rows)
    return {(r.level, r.name): r for r in rows}


def test_every_level_is_near_the_truth() -> None:
    found = energies(measured())
    truth = {("op", "fc addmm #0 forward"): 8 * 0.004, ("op", "relu #1 backward"): 4 * 0.002,
             ("layer", "fc"): 8 * 0.004, ("phase", "backward"): 4 * 0.002,
             ("rail", ""): 8 * 0.004 + 4 * 0.002 + 2 * 0.004, ("idle", ""): 2 * 0.004}
    for key, joules in truth.items():
        assert found[key].total_j == pytest.approx(STEPS * joules, rel=0.05), key
    op = found["op", "fc addmm #0 forward"]
    assert op.low_j is not None and op.high_j is not None
    assert op.low_j <= STEPS * 0.032 <= op.high_j
    assert op.dynamic_j == pytest.approx(STEPS * 6 * 0.004, rel=0.05)
    assert (op.instances, op.readings) == (STEPS, pytest.approx(590, abs=30))
    assert op.provenance == "simulated"
    assert found["step", "7"].total_j == pytest.approx(0.048, rel=0.5)


def test_the_parts_add_up_to_the_rail() -> None:
    found = energies(measured())
    parts = [e.total_j or 0.0 for (level, _), e in found.items()
             if level in ("op", "idle", "unattributed")]
    assert math.isclose(math.fsum(parts), found["rail", ""].total_j or 0.0, rel_tol=1e-12)


def test_the_power_of_the_next_step_is_foretold() -> None:
    (told,) = [r for r in measured_rows(measured()) if isinstance(r, Result)]
    assert told.name == "error of the next step's power, in_power_w"
    assert told.value is not None and 0 <= told.value < 60 and told.provenance == "simulated"


def test_parts_of_a_rail_that_exceed_it_are_told() -> None:
    child = replace(RAIL, quantity="gpu_power_w", part="gpu", parent="in_power_w")
    given = measured((RAIL, child), scale={"gpu_power_w": 1.5})
    (told,) = [r for r in measured_rows(given) if isinstance(r, Missing)]
    assert told.source == "ina3221" and "more than its own" in told.why


def test_a_rail_that_was_never_read_has_a_reason() -> None:
    given = replace(measured(), samples=())
    (row,) = [r for r in measured_rows(given) if isinstance(r, Energy)]
    assert (row.level, row.total_j) == ("rail", None)
    assert row.total_reason.startswith("not enough data")


@pytest.mark.parametrize("quantity, kind, is_one", [
    ("in_power_w", "instant", True), ("package_energy_j", "counter", True),
    ("in_power_w", "gauge", False), ("cpu0_busy_s", "counter", False), ("soc_c", "gauge", False),
    ("energy_now_j", "gauge", False)])
def test_power_and_counters_of_energy(quantity: str, kind: str, is_one: bool) -> None:
    assert is_energy(replace(RAIL, quantity=quantity, kind=kind)) == is_one  # type: ignore[arg-type]


def test_a_run_without_power_has_no_rows() -> None:
    assert list(measured_rows(run())) == []
