"""Torch's steps in a process of its own: `python -m handtorch.profile.torch_alone`.

In the process of an OpenCL driver torch's threads share cores with the driver's, and its steps take
up to twice their time. Asked in lines of JSON, as a side of the bench is (ADR 30):

    {"do": "make", "model", "form", "batch", "warm_up"}              {"step_s"}
    {"do": "record", "name", "steps", "first_id", "sensors", "file"} {"steps"}

and what was recorded is a run file, which `rows_beside` fits to the run of a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from handtorch.baseline.fair import settle
from handtorch.errors import HandTorchError
from handtorch.meters.search import OF_A_PROCESS
from handtorch.profile.rows import as_run, write_run
from handtorch.profile.sensing import Sensing
from handtorch.profile.torch_side import TorchProfile
from handtorch.record import Run, Sample, Signal
from handtorch.record.row import Row
from handtorch.runtime.answers import answer_parent


class TorchAlone:
    """A model of the zoo that trains by torch, on the batch that a device trains on."""

    def __init__(self) -> None:
        self._call: Callable[..., Any] | None = None
        self._batch: tuple[Any, ...] = ()

    def asked(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A refusal is an answer; what nobody foresaw ends the process with its own words."""
        what = {"make": self._make, "record": self._record}
        try:
            return what[told["do"]](told)
        except HandTorchError as e:
            return {"error": e.message().splitlines()[0]}
        except MemoryError:
            return {"error": "there was not enough memory for it"}

    def _make(self, told: Mapping[str, Any]) -> dict[str, Any]:
        from handtorch.zoo.registry import MODELS

        entry = MODELS[told["model"]]
        model = entry.make(told["form"])
        self._call = entry.step(model, entry.optimizers(model))
        self._batch = entry.batch(told["batch"], told["form"])
        start_ns = time.monotonic_ns()
        for _ in range(told["warm_up"]):
            start_ns = time.monotonic_ns()
            self._call(*self._batch)
        return {"step_s": (time.monotonic_ns() - start_ns) / 1e9}

    def _record(self, told: Mapping[str, Any]) -> dict[str, Any]:
        assert self._call is not None, "make comes first"
        settle()
        sensing = Sensing(samples=told["sensors"])
        with TorchProfile(self._call, told["name"], sensing=sensing) as taken:
            for _ in range(told["steps"]):
                taken(*self._batch)
        alone = taken.run
        rows = [*alone.clocks, *taken.rows(told["first_id"]), *alone.signals, *alone.samples]
        write_run(as_run(alone.info, rows), told["file"])
        return {"steps": len(alone.steps)}


def rows_beside(alone: Run, run: Run) -> Iterator[Row]:
    """What goes into `run`, which has the clock already: steps and operations; of the readings
    those of the machine's sensors that `run` knows, and those of torch's process, as sensors of
    their own: its counters are not those of the process that `run` is about."""
    yield from (*alone.places, *alone.steps, *alone.launches, *alone.gaps)
    known = {(s.meter, s.quantity) for s in run.signals}
    yield from _of_torch(s for s in alone.signals if s.meter in OF_A_PROCESS)
    yield from (s for s in alone.samples if (s.meter, s.quantity) in known
                and s.meter not in OF_A_PROCESS)
    yield from _of_torch(s for s in alone.samples if s.meter in OF_A_PROCESS)


def _of_torch(rows: Iterable[Signal | Sample]) -> Iterator[Row]:
    return (replace(row, meter=f"{row.meter} of torch") for row in rows)


if __name__ == "__main__":
    answer_parent(TorchAlone().asked)
