"""What the study `training` found, as rows of the run file: the paper's figures and Table II.

    Fig. 2     use of every core over three steps          Fig. 6  joules of a step
    Fig. 3, 4  use of device and cores by model and batch  Fig. 8  throughput
    Fig. 5     idle-state ratio of every core              Fig. 9  memory by role"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from handtorch.baseline.fair import middle_half
from handtorch.baseline.parity import losses_off
from handtorch.record import Result
from handtorch.record.row import Provenance
from handtorch.record.rows import Better
from handtorch.runtime.opencl.setting import HOST
from handtorch.studies.training_cells import DEVICE, TORCH, Cell, Kind
from handtorch.studies.training_memory import expected_bytes
from handtorch.studies.training_published import (
    BATCH,
    CORE_USE,
    DEVICE_USE,
    FLOPS,
    NAME,
    PARAMETERS,
    PEAK,
    SAMPLES,
    THROUGHPUT,
)
from handtorch.studies.training_run import Measured

RATIO = "times as fast as torch"
PARITY = "loss: difference from torch"
EXPECTED = "peak memory as planned"
PLANNED, BUDGETED = "bytes of a step, planned", "bytes of a step within the limit, planned"
LARGEST, LARGEST_BUDGET = "largest batch that fits", "largest batch that fits within a budget"
MB = 1e6


def parity(ours: Cell, theirs: Cell) -> tuple[float, ...]:
    return losses_off(ours.losses, theirs.losses)


def pairs(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Ours and torch's of the same model and batch, both measured."""
    theirs = {(c.kind, c.batch): c for c in cells if c.side == TORCH and c.measured}
    for cell in cells:
        if cell.side == DEVICE and cell.measured and (cell.kind, cell.batch) in theirs:
            yield cell, theirs[cell.kind, cell.batch]


def rows_of(found: Measured, place: str) -> Iterator[Result]:
    for cell in found.cells:
        yield from _cell_rows(cell, place if cell.side == DEVICE else HOST)
    for ours, theirs in pairs(found.cells):
        yield from _pair_rows(ours, theirs, place)
    for cell in found.cells:
        if found.bare is not None and (nbytes := expected_bytes(cell, found.bare)) is not None:
            yield _result(EXPECTED, cell.kind, place, nbytes / MB, "MB", cell.batch,
                          provenance="estimated")
    yield from _plan_rows(found, place)
    yield from _over_time(found.cells, place)


def _cell_rows(cell: Cell, place: str) -> Iterator[Result]:
    if not cell.measured:
        yield _result(THROUGHPUT, cell.kind, place, None, SAMPLES, cell.batch, "higher",
                      why=f"{cell.state}: {cell.reason}")
        return
    rates = [cell.batch / s for s in cell.step_s]
    yield _result(THROUGHPUT, cell.kind, place, median(rates), SAMPLES, cell.batch, "higher",
                  repeats=len(rates), spread=middle_half(rates))
    use, why = cell.use, cell.use.missing or "this machine does not tell"
    if cell.side == DEVICE:
        yield _result(DEVICE_USE, cell.kind, place, _percent(use.device), "%", cell.batch, why=why)
    yield _result(CORE_USE, cell.kind, place, _percent(use.mean_core), "%", cell.batch, why=why)
    for core, share in use.idle.items():
        yield _result(f"idle-state ratio of {core}", cell.kind, place, 100 * share, "%", cell.batch)
    yield _result("error of the next step's time", cell.kind, place, _percent(use.time_error), "%",
                  cell.batch, "lower", why="there is one step only")
    yield from _power_rows(cell, place)
    if cell.memory is not None:
        yield _result(PEAK, cell.kind, place, cell.memory.peak_bytes / MB, "MB", cell.batch,
                      "lower")
        for role, nbytes in cell.memory.roles.items():
            yield _result(f"memory: {role}", cell.kind, place, nbytes / MB, "MB", cell.batch)


def _over_time(cells: Sequence[Cell], place: str) -> Iterator[Result]:
    """Fig. 2: of InceptionV1 as in the paper, else of the first model; at its largest batch."""
    known = [c for c in cells if c.side == DEVICE and c.use.over]
    chosen = [c for c in known if c.kind.model == "InceptionV1"] or [
        c for c in known if c.kind == known[0].kind]
    for cell in sorted(chosen, key=lambda c: c.batch)[-1:]:
        for core, line in cell.use.over.items():
            for at, share in line:
                yield _result(f"use over three steps, {cell.title}", cell.kind, place, 100 * share,
                              "%", at, x_name="s", subject=core)


def _power_rows(cell: Cell, place: str) -> Iterator[Result]:
    if not cell.power.joules:
        yield _result("joules of a step", cell.kind, place, None, "J", cell.batch, "lower",
                      why=cell.power.missing or "no sensor of power here")
    word: Provenance = "measured" if cell.power.provenance == "measured" else "simulated"
    for rail, joules in cell.power.joules.items():
        yield _result(f"joules of a step, {rail}", cell.kind, place, joules, "J", cell.batch,
                      "lower", provenance=word)
        yield _result(f"mean power, {rail}", cell.kind, place, joules / median(cell.step_s), "W",
                      cell.batch, provenance=word)


def _pair_rows(ours: Cell, theirs: Cell, place: str) -> Iterator[Result]:
    yield _result(RATIO, ours.kind, place, median(theirs.step_s) / median(ours.step_s), "x",
                  ours.batch, "higher")
    for number, off in enumerate(parity(ours, theirs), 1):
        yield _result(f"{PARITY}, step {number}", ours.kind, place, off, "relative", ours.batch,
                      "lower")


def _plan_rows(found: Measured, place: str) -> Iterator[Result]:
    counted = set()
    for plan in found.plans:
        why = plan.why_not or "it does not fit"
        for name, nbytes in ((PLANNED, plan.held_bytes), (BUDGETED, plan.budget_bytes)):
            yield _result(name, plan.kind, place, None if nbytes is None else nbytes / MB, "MB",
                          plan.batch, "lower", provenance="estimated", why=why)
        if plan.kind not in counted:
            counted.add(plan.kind)
            yield _result(PARAMETERS, plan.kind, place, plan.parameters / 1e6, "million", None)
            yield _result(FLOPS, plan.kind, place, plan.forward_flops / 1e6, "million", None)
    for kind, (plain, budget) in found.largest.items():
        yield _result(LARGEST, kind, place, plain, "samples", None, "higher",
                      provenance="estimated")
        yield _result(LARGEST_BUDGET, kind, place, budget, "samples", None, "higher",
                      provenance="estimated")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _result(name: str, kind: Kind, place: str, value: float | None, unit: str, x: float | None,
            better: Better = "neither", *, why: str = "", repeats: int = 1,
            spread: float | None = None, provenance: Provenance = "measured",
            x_name: str = BATCH, subject: str = "") -> Result:
    return Result(study=NAME, name=name, subject=subject or kind.title, place=place,
                  x_name="" if x is None else x_name, x_value=x, value=value,
                  value_reason="" if value is not None else why, unit=unit, better=better,
                  repeats=0 if value is None else repeats,
                  spread=spread if value is not None and repeats > 1 else None,
                  provenance=provenance)
