"""A process that loads a model and recognises pictures with it, and tells what that took.

One line of JSON on standard output once it can answer, one for the whole at its end; then it waits
until its standard input ends. What it is told is JSON in its only argument."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handtorch.meters.used import memory_of_process


class Collections:
    """Python's garbage collections as they happen: how many, how long, and the longest."""

    def __init__(self) -> None:
        self.count, self.total_ns, self.longest_ns, self._begun_ns = 0, 0, 0, 0
        gc.callbacks.append(self._called)

    def _called(self, phase: str, info: Mapping[str, int]) -> None:
        now_ns = time.perf_counter_ns()
        if phase == "start":
            self._begun_ns = now_ns
            return
        took_ns = now_ns - self._begun_ns
        self.count += 1
        self.total_ns += took_ns
        self.longest_ns = max(self.longest_ns, took_ns)

    def end(self) -> None:
        gc.callbacks.remove(self._called)


class Phase:
    """Between begin and end: time, collections, and page faults of this process."""

    def __enter__(self) -> Phase:
        self._faults = resource.getrusage(resource.RUSAGE_SELF)
        self._collections = Collections()
        self._begin_ns = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        took_ns, found = time.perf_counter_ns() - self._begin_ns, self._collections
        found.end()
        now = resource.getrusage(resource.RUSAGE_SELF)
        self.told = {
            "ms": took_ns / 1e6, "collections": found.count, "collecting_ms": found.total_ns / 1e6,
            "longest_pause_ms": found.longest_ns / 1e6,
            "minor_faults": now.ru_minflt - self._faults.ru_minflt,
            "major_faults": now.ru_majflt - self._faults.ru_majflt}


def limit_heap(more_bytes: int) -> None:
    """From now on this process gets so much more private memory to write to, and no more."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_of_process("VmData") + more_bytes, most))


def no_limit() -> None:
    """What went wrong can be told again."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main(asked: Mapping[str, Any]) -> int:
    """Imports come before the limit: a heap is of objects, not of the program."""
    from handtorch.cloud.offers import Given, offer_of
    from handtorch.cloud.on_device import OnDevice
    from handtorch.errors import HandTorchError
    offer = offer_of("model", "1", asked["model"], Given(**asked["given"]))
    import handtorch.api.load
    if not asked["model"].endswith(".ht"):
        import handtorch.api.make
        import handtorch.zoo.serving  # noqa: F401  torch, which is the program too
    recognise = OnDevice(offer, mapped=asked["mapped"])
    before_bytes = memory_of_process("VmData")
    if asked["heap_bytes"]:
        limit_heap(asked["heap_bytes"])
    try:
        with Phase() as loading:
            recognise.load()
        _tell({"loaded": True})
        with Phase() as using:
            for path in asked["pictures"]:
                recognise(Path(path))
    except (HandTorchError, MemoryError, RuntimeError, OSError, SystemError) as e:
        no_limit()
        first, *_ = str(e).splitlines() or [""]
        # Our own errors are sentences; of others the name is often all there is.
        _tell({"error": first if isinstance(e, HandTorchError) else f"{type(e).__name__}: {first}"})
        return 1
    peak = memory_of_process("VmHWM")
    _tell({"load": loading.told, "use": using.told, "peak_bytes": peak,
           "heap_bytes": memory_of_process("VmData") - before_bytes})
    sys.stdin.read()
    return 0


def _tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
