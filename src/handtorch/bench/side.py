"""A side of a comparison as a process: JSON, a line each, in at stdin and out at stdout.

    {"do": "make", "case": ..., "folder": ...}  {"version", "firsts_s", "results"}, or {"skipped"}
    {"do": "run", "warm_up": 3, "count": 20}    {"seconds"}
    {"do": "again"}                             {"results"}
    {"do": "memory"}                            {"before_bytes", "peak_bytes", "steps_bytes"}

and the end of the input is the end of the process. Results are files in the case's folder. Any of
them may be answered with {"error"}; who dies is seen to have died. A side says only how its engine
is driven (`Subject`); when it is quiet, what is timed and what memory it holds is the same for all
of them and found out here. This file and what it imports need NumPy and nothing else, so that it
runs in any Python that has a peer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from handtorch.baseline.fair import here, settle
from handtorch.bench.case import CHECKED, Asked, write_calls
from handtorch.errors import HandTorchError
from handtorch.meters.used import forget_peak, memory_of_process
from handtorch.runtime.answers import answer_parent
from handtorch.store.tensors import Array


class CannotRun(HandTorchError):
    """This side does not run this case here; the reason is shown in place of its figures."""


class Subject(Protocol):
    """An engine with a model in it.

    The first `once` makes whatever must be made for a run (captures, compiles) and is timed as
    such. Training goes on from run to run."""

    version: str                    # name and version of the engine

    def once(self, number: int) -> Sequence[Array]:
        """One run on batch `number`, counted round: the losses, or the outputs."""

    def run(self, count: int) -> None:
        """So many runs, batches in turn; none is under way afterwards."""


Make = Callable[[Asked], Subject]


def serve(engine: Callable[[Asked], Make]) -> None:
    """Answer until the input ends. `engine` loads the library, and gives what makes a subject."""
    answer_parent(_Side(engine).asked)


class _Side:
    def __init__(self, engine: Callable[[Asked], Make]) -> None:
        self._engine = engine
        self._subject: Subject | None = None
        self._asked: Asked | None = None
        self._before_bytes = self._first_bytes = self._files = 0

    def asked(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """A refusal is an answer; what nobody foresaw ends the process with its own words."""
        what = {"make": self._make, "run": self._run, "again": self._again, "memory": self._memory}
        try:
            return what[told["do"]](told)
        except CannotRun as e:
            return {"skipped": e.message().splitlines()[0]}
        except ImportError as e:
            return {"skipped": f"it is not installed: {e}"}
        except HandTorchError as e:
            return {"error": e.message().splitlines()[0]}
        except MemoryError:
            return {"error": "there was not enough memory for it"}

    def _make(self, told: Mapping[str, Any]) -> dict[str, Any]:
        asked = self._asked = Asked.from_json(told)
        make = self._engine(asked)
        self._before_bytes = memory_of_process("VmRSS")     # the engine, and no model yet
        subject = self._subject = make(asked)
        firsts_s, results = [], []
        for number in range(CHECKED):
            start = time.perf_counter()
            results.append(tuple(subject.once(number)))
            firsts_s.append(time.perf_counter() - start)
        self._first_bytes = memory_of_process("VmHWM")
        forget_peak()
        settle()
        return {"version": subject.version, "firsts_s": firsts_s, "results": self._kept(results)}

    def _run(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Nobody else runs meanwhile; and when we answer, no thread of ours does."""
        assert self._subject is not None, "make comes first"
        seconds = here(self._subject.run)(told["warm_up"], told["count"])
        settle()
        return {"seconds": seconds}

    def _again(self, told: Mapping[str, Any]) -> dict[str, Any]:
        assert self._subject is not None, "make comes first"
        return {"results": self._kept([tuple(self._subject.once(0))])}

    def _memory(self, told: Mapping[str, Any]) -> dict[str, Any]:
        steps = memory_of_process("VmHWM")
        return {"before_bytes": self._before_bytes, "peak_bytes": max(steps, self._first_bytes),
                "steps_bytes": steps}

    def _kept(self, results: list[tuple[Array, ...]]) -> str:
        assert self._asked is not None, "make comes first"
        self._files += 1
        path = self._asked.folder / f"results-{os.getpid()}-{self._files}.safetensors"
        write_calls(path, results)
        return str(path)
