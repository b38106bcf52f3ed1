"""Loading a model under memory pressure: a limited heap, garbage collection, page faults, and the
start again of a process that was killed. Each loading is a process of its own."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.cloud.offers import Given

HEAPS_BYTES = (192 << 20, 512 << 20)        # of an Android app by default, and a large one
LIMIT_S = 180.0


@dataclass(frozen=True)
class PhaseCost:
    """Of one phase in one process."""

    ms: float
    collections: int
    collecting_ms: float
    longest_pause_ms: float
    minor_faults: int
    major_faults: int


@dataclass(frozen=True)
class Loading:
    """`failed` is why it did not load; then only that and `answer_ms` are known.

    `answer_ms` is from the start of the process to its model being ready, Python's own start
    included: what a user waits for after the process was killed."""

    answer_ms: float
    failed: str = ""
    load: PhaseCost | None = None
    use: PhaseCost | None = None
    peak_bytes: int = 0             # resident
    heap_bytes: int = 0             # written to, more than before loading


@dataclass(frozen=True)
class Way:
    """How a model is loaded: of the zoo by torch, or a `.ht` file, copied or mapped."""

    model: str
    given: Given
    mapped: bool = False
    cache: Path | None = None       # of kernels; None is the user's own

    def loaded(self, pictures: Sequence[Path] = (), heap_bytes: int = 0, *,
               kill: bool = False) -> Loading:
        """One process from start to end; `kill` ends it as a system short of memory does."""
        asked = {"model": self.model, "given": asdict(self.given), "mapped": self.mapped,
                 "heap_bytes": heap_bytes, "pictures": [str(p) for p in pictures]}
        environment = knobs.environment_for_child()
        if self.cache is not None:
            environment["HANDTORCH_CACHE"] = str(self.cache)
        begin_ns = time.perf_counter_ns()
        process = subprocess.Popen(
            [sys.executable, "-m", "handtorch.cloud.loading_child", json.dumps(asked)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment)
        try:
            first = _line(process)
            answer_ms = (time.perf_counter_ns() - begin_ns) / 1e6
            if kill:
                process.kill()
            last = _line(process) if first.get("loaded") and not kill else first
        finally:
            code = _ended(process)
        return _told(answer_ms, first, last, code, killed=kill)


def _told(answer_ms: float, first: Mapping[str, Any], last: Mapping[str, Any], code: int, *,
          killed: bool) -> Loading:
    if "error" in last:
        return Loading(answer_ms, ("loaded, then " if first.get("loaded") else "")
                       + str(last["error"]))
    if killed and first.get("loaded"):
        return Loading(answer_ms)
    if "load" not in last:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return Loading(answer_ms, f"the process ended with {how}")
    return Loading(answer_ms, "", PhaseCost(**last["load"]), PhaseCost(**last["use"]),
                   int(last["peak_bytes"]), int(last["heap_bytes"]))


def _line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next thing it says; empty where it ended or took too long."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], LIMIT_S)[0]:
        return {}
    text = process.stdout.readline()
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _ended(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    return process.returncode
