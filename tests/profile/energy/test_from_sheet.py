from __future__ import annotations

import math
from dataclasses import replace

import pytest

from handtorch.place.sheet import CoreKind, Figure, Sheet
from handtorch.profile.energy.from_sheet import estimated_rows
from handtorch.record import Energy, Run
from tests.profile.energy.runs import on_host_cpu, run

SHEET = Sheet("board", Figure(2.0, "a"), (CoreKind("big", 2, 1.5, "a"),), Figure(3.0, "a"),
              Figure(1e-6, "a"))


def rows(given: Run, sheet: Sheet = SHEET) -> dict[tuple[str, str], Energy]:
    made = list(estimated_rows(given, sheet))
    assert all(r.provenance == "estimated" and r.low_j is None for r in made)
    assert len({(r.level, r.name) for r in made}) == len(made)
    return {(r.level, r.name): r for r in made}


def test_a_gpu() -> None:
    found = rows(run())
    op = found["op", "fc addmm #0 forward"]
    # 12 ms of (2 + 3) W and 3000 bytes of 1 uJ
    assert math.isclose(op.total_j or 0, 0.012 * 5 + 0.003)
    assert math.isclose(op.dynamic_j or 0, 0.012 * 3 + 0.003)
    assert (op.instances, op.seconds, op.readings) == (3, 0.012, 0)
    assert op.how == "sheet of board: idle 2 W, GPU 3.0 W more, memory 1e+06 pJ a byte"
    assert math.isclose(found["idle", ""].total_j or 0, 0.012 * 2)
    assert math.isclose(found["step", "4"].total_j or 0, 0.01 * 2 + 0.006 * 3 + 0.002)


@pytest.mark.parametrize("level", ["op", "layer", "phase", "step"])
def test_every_level_adds_up_to_the_whole(level: str) -> None:
    found = rows(run())
    parts = [r.total_j or 0 for (at, _), r in found.items() if at == level]
    idle = 0.0 if level == "step" else found["idle", ""].total_j or 0
    assert len(parts) > 1
    assert math.isclose(math.fsum(parts) + idle, found["rail", ""].total_j or 0, rel_tol=1e-12)


@pytest.mark.parametrize("given", [run("cpu", 0.6), on_host_cpu(run("cpu", 0.6))])
def test_a_cpu_draws_for_the_cores_that_were_busy(given: Run) -> None:
    # 0.6 cores over the whole time are one core while operations run, which is 60 % of it
    found = rows(given)
    assert math.isclose(found["op", "relu #1 backward"].dynamic_j or 0, 0.006 * 1.5 + 0.003)
    assert "1.00 cores busy: 1.50 W more" in found["rail", ""].how


@pytest.mark.parametrize("given, sheet, why", [
    (run(), replace(SHEET, gpu_w=Figure(None, "the sheet has no [gpu]")), "the sheet has no [gpu]"),
    (run(), replace(SHEET, idle_w=Figure(None, "the sheet has no [idle]")),
     "the sheet has no [idle]"),
    (run("cpu"), replace(SHEET, cores=()), "the sheet has no [[cores]]"),
    (run("cpu", None), SHEET, "processor time was not recorded for two steps"),
])
def test_what_cannot_be_said_has_a_reason(given: Run, sheet: Sheet, why: str) -> None:
    (row,) = estimated_rows(given, sheet)
    assert (row.level, row.total_j, row.total_reason, row.dynamic_reason) == (
        "rail", None, why, why)


def test_memory_that_the_sheet_does_not_know_is_left_out_and_said() -> None:
    found = rows(run(), replace(SHEET, memory_j=Figure(None, "no")))
    assert math.isclose(found["op", "relu #1 backward"].total_j or 0, 0.006 * 5)
    assert found["rail", ""].how.endswith("memory not counted")
