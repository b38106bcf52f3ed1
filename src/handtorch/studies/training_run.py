"""All cells of the study `training` in turn, each in a process of its own; what is done is kept."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from handtorch import knobs
from handtorch.graph.device_spec import DeviceSpec
from handtorch.runtime.opencl.prebuild import WORTH_IT
from handtorch.studies.kept import Kept
from handtorch.studies.training_cells import (
    DEVICE,
    TORCH,
    Cell,
    Kind,
    Memory,
    Planned,
    Power,
    Side,
    Use,
    cell_from,
    planned_from,
    to_json,
)
from handtorch.studies.training_watch import Length

MOST_S = 180.0              # a cell that is predicted to take longer is not run
FEASIBLE = (128, 256)       # planned too, though not run: none of the paper's models fitted
RUN_STEPS = 9               # of a cell at least: three left out, three measured, three observed
ENDED_AFTER_S = 900.0       # a child that takes longer, compiling included, is ended
_TRIES = 4                  # batches tried when the largest that fits is looked for
_CHILD = "handtorch.studies.training_child"
_PREPARE = "handtorch.studies.training_prepare"


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    kinds: tuple[Kind, ...]
    batches: tuple[int, ...]
    sides: tuple[Side, ...]
    device: str
    spec: DeviceSpec
    memory_bytes: int
    length: Length = field(default_factory=Length)
    feasible: tuple[int, ...] = FEASIBLE
    data: str = ""              # path of data, or "generated"; looked for where it is empty
    compared: tuple[int, ...] | None = None     # batches that torch runs too; all
    empty: bool = True          # whether a process with next to no step is measured, for its memory

    def cells(self) -> list[tuple[int, Side]]:
        """Of each model."""
        return [(b, s) for b in self.batches for s in self.sides
                if s == DEVICE or self.compared is None or b in self.compared]

    def setting(self) -> dict[str, Any]:
        """What a kept row depends on besides its key."""
        return {"device": self.device, "driver": self.spec.driver, "name": self.spec.name,
                "memory_bytes": self.memory_bytes, "length": asdict(self.length),
                "data": self.data}


@dataclass(frozen=True)
class Bare:
    """A process with the driver loaded and a step of next to nothing."""

    bytes: int
    planned: int
    launches: int
    kernels: int


@dataclass
class Measured:
    """Everything known so far; `largest` is by model the largest batch up to the largest planned
    that fits, without and with a budget, each None where it was not looked for."""

    plans: list[Planned]
    cells: list[Cell]
    largest: dict[Kind, tuple[int, int]]
    bare: Bare | None = None


class Runner:
    def __init__(self, asked: Asked, kept: Kept, progress: Callable[[str], None]) -> None:
        self.asked, self._kept, self._progress = asked, kept, progress
        self.found = Measured([], [], {})
        self._began, self._fresh = time.monotonic(), 0
        self._files = kept.folder / "steps"

    def run(self) -> Measured:
        """Every model in turn; one that fails does not stop the rest."""
        if DEVICE in self.asked.sides and self.asked.empty:
            self.found.bare = self._bare()
        for kind in self.asked.kinds:
            try:
                self._model(kind)
            finally:
                for file in self._files.glob("*.ht"):
                    file.unlink()
        return self.found

    # --- one model

    def _model(self, kind: Kind) -> None:
        asked = self.asked
        wanted = asked.cells()
        known = {(b, s): self._kept.get(_key(kind, b, s)) for b, s in wanted}
        save = [b for b, s in wanted if s == DEVICE and known[b, s] is None]
        batches = sorted({*asked.batches, *asked.feasible})
        plans, errors = self._plans(kind, batches, save)
        self.found.plans += plans.values()
        self._largest(kind, plans)
        for batch, side in wanted:
            if (told := known[batch, side]) is not None:
                self.found.cells.append(cell_from(told))
                continue
            self._say(kind, batch, side)
            cell = self._cell(kind, batch, side, plans.get(batch), errors.get(batch, ""))
            self._kept.put(_key(kind, batch, side), to_json(cell))
            self.found.cells.append(cell)
            self._fresh += 1

    def _plans(self, kind: Kind, batches: Sequence[int], save: Sequence[int]
               ) -> tuple[dict[int, Planned], dict[int, str]]:
        """The plans that are kept, and those that are missing, worked out now; by batch the reason
        where that failed. The steps of `save` are in files afterwards."""
        told = {b: self._kept.get(_plan_key(kind, b)) for b in batches}
        plans = {b: planned_from(p) for b, p in told.items() if p is not None}
        missing = [b for b in batches if b not in plans]
        errors: dict[int, str] = {}
        if missing or save:
            self._progress(f"training: {kind.title}, capturing and planning")
            self._files.mkdir(parents=True, exist_ok=True)
            for line in self._prepare(kind, missing, save):
                batch = line["batch"]
                if "planned" in line:
                    plans[batch] = planned_from(line["planned"])
                    self._kept.put(_plan_key(kind, batch), line["planned"])
                elif "error" in line:
                    errors[batch] = line["error"]
            lost = {*missing, *save} - plans.keys() - errors.keys()
            errors |= dict.fromkeys(lost, "the process that captures it ended early")
        return dict(sorted(plans.items())), errors

    def _prepare(self, kind: Kind, plan: Sequence[int], save: Sequence[int]
                 ) -> Iterator[dict[str, Any]]:
        given = {"kind": asdict(kind), "spec": self.asked.spec.to_dict(), "plan": list(plan),
                 "memory_bytes": self.asked.memory_bytes,
                 "save": {str(b): str(self._file(kind, b)) for b in save}}
        out, _ = _child(_PREPARE, given)
        for line in out.splitlines():
            yield json.loads(line)

    def _file(self, kind: Kind, batch: int) -> Path:
        return self._files / f"{kind.key}-b{batch}.ht"

    def _largest(self, kind: Kind, plans: Mapping[int, Planned]) -> None:
        """Without and with a budget: foretold from a line through the plans, then planned."""
        if not plans:
            return
        self.found.largest[kind] = (
            self._largest_of(kind, dict(plans), Planned.fits_alone),
            self._largest_of(kind, dict(plans), Planned.fits_with_budget))

    def _largest_of(self, kind: Kind, plans: dict[int, Planned],
                    fits: Callable[[Planned], bool]) -> int:
        known = {b: fits(p) for b, p in plans.items()}
        for _ in range(_TRIES):
            low = max((b for b, yes in known.items() if yes), default=0)
            high = min((b for b, yes in known.items() if not yes), default=None)
            if high is None or high - low <= 1:
                break
            batch = between(low, high, plans, self.asked.memory_bytes)
            more, _ = self._plans(kind, [batch], [])
            if batch not in more:
                break
            plans[batch] = more[batch]
            known[batch] = fits(more[batch])
        return max((b for b, yes in known.items() if yes), default=0)

    # --- one cell

    def _cell(self, kind: Kind, batch: int, side: Side, plan: Planned | None, error: str) -> Cell:
        if error or plan is None:
            return Cell(kind, batch, side, "failed", error or "it has no plan")
        alone = plan.fits_alone()
        if not alone and not (side == DEVICE and plan.fits_with_budget()):
            need = "a tensor of it is too large for the device" if plan.held_bytes is None else \
                f"it needs {plan.held_bytes:,} bytes"
            return Cell(kind, batch, side, "not run", f"{need}, the limit is "
                        f"{plan.memory_bytes:,}")
        budget = None if alone else plan.memory_bytes
        estimate, how = self._estimate(plan, side)
        if estimate > MOST_S:
            return Cell(kind, batch, side, "not run", f"about {estimate:.0f} s are predicted from "
                        f"{how}, more than {MOST_S:.0f}", estimate)
        given = {"side": side, "model": kind.model, "form": kind.form, "small": kind.small,
                 "batch": batch, "device": self.asked.device, "memory": budget,
                 "length": asdict(self.asked.length), "data": self.asked.data,
                 "file": str(self._file(kind, batch))}
        if side == DEVICE and plan.launches < 2 * WORTH_IT:
            _child(_CHILD, given)           # a small program is compiled in the process itself
        out, why = _child(_CHILD, given)
        found: dict[str, Any] = json.loads(out) if out else {"error": why}
        if "error" in found:
            return Cell(kind, batch, side, "failed", found["error"], estimate)
        return Cell(kind, batch, side, "measured", "", estimate, tuple(found["step_s"]),
                    tuple(map(tuple, found["losses"])), found["source"],
                    found.get("prepare_s", 0.0), budget, found["others"],
                    Memory(**found["memory"]), Use(**found["use"]), Power(**found["power"]))

    def _estimate(self, plan: Planned, side: Side) -> tuple[float, str]:
        """Seconds of the steps of a cell: from a smaller batch that was measured, as if time grew
        with the batch, else from the device's sheet. Compiling is not in it."""
        measured = [c for c in self.found.cells if c.kind == plan.kind and c.side == side
                    and c.measured and c.batch < plan.batch]
        if measured:
            last = max(measured, key=lambda c: c.batch)
            step_s = median(last.step_s) * plan.batch / last.batch
            return RUN_STEPS * step_s, f"batch {last.batch}"
        slower = plan.slow_down or 1.0
        return RUN_STEPS * plan.estimate_s * slower, "the device's sheet"

    def _bare(self) -> Bare | None:
        told = self._kept.get("bare")
        if told is None:
            self._progress("training: an empty process, for its memory")
            kind = Kind("Model1")
            self._files.mkdir(parents=True, exist_ok=True)
            list(self._prepare(kind, [], [4]))
            given = {"side": "bare", "model": "Model1", "form": "", "small": False, "batch": 4,
                     "device": self.asked.device, "data": self.asked.data,
                     "length": asdict(Length(seconds=0.0)), "file": str(self._file(kind, 4))}
            _child(_CHILD, given)           # a compiler leaves much behind where it has just run
            out, _ = _child(_CHILD, given)
            told = json.loads(out) if out else {"error": "it ended early"}
            if "error" in told:
                return None
            self._kept.put("bare", told)
        return Bare(**told)

    def _say(self, kind: Kind, batch: int, side: Side) -> None:
        total = len(self.asked.kinds) * len(self.asked.cells())
        done = len(self.found.cells)
        text = f"training: cell {done + 1} of {total}, {kind.title} b{batch}, " \
               f"{'torch' if side == TORCH else self.asked.device}"
        if self._fresh:
            each = (time.monotonic() - self._began) / self._fresh
            text += f"; about {_spoken(each * (total - done))} left"
        self._progress(text)


def between(low: int, high: int, plans: Mapping[int, Planned], memory_bytes: int) -> int:
    """A batch above `low` and below `high`: where a line through the plans meets the memory, or
    the middle where that is not between them."""
    known = sorted((b, p.held_bytes) for b, p in plans.items() if p.held_bytes is not None)
    middle = (low + high) // 2
    if len(known) < 2:
        return middle
    (a, small), (b, large) = known[0], known[-1]
    each = (large - small) / (b - a)
    met = a + int((memory_bytes - small) / each) if each > 0 else middle
    return met if low < met < high else middle


def _key(kind: Kind, batch: int, side: Side) -> str:
    return Cell(kind, batch, side, "measured").key


def _plan_key(kind: Kind, batch: int) -> str:
    return f"{kind.key}-b{batch}-plan"


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _child(module: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """What it printed, and how it ended where that is nothing."""
    try:
        done = subprocess.run([sys.executable, "-m", module, json.dumps(given)], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=ENDED_AFTER_S, check=False,
                              env=knobs.environment_for_child())
    except subprocess.TimeoutExpired as e:
        return _text(e.stdout), f"it took longer than {ENDED_AFTER_S:.0f} s and was ended"
    last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return done.stdout, f"its process ended with {how}: {last[0]}"


def _text(given: bytes | str | None) -> str:
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else given or ""
