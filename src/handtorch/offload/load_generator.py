"""Other people's work, made on purpose: cores or an OpenCL device held busy at a set share.

    with LoadGenerator(cores=(1,), limit_s=60) as load:
        load.hold(0.8)
        print(load.check(1.0))          # what it really is, or an error

A scheduler that is fair gives one busy program beside ours half of a core, so a share above that
takes several: as many workers are started as hold the highest share against one busy program.
Every worker ends by itself (see `load_worker`), also if this process dies.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from statistics import median
from types import TracebackType

from handtorch import knobs
from handtorch.baseline.fair import middle_half
from handtorch.errors import BadInput, DeviceError
from handtorch.meters.procfs import core_seconds
from handtorch.meters.threads import ProcessClock
from handtorch.offload.load_worker import Asked

HIGHEST = 0.9                       # above, a handful of workers would no longer do
TOLERANCE = 0.05
LONGEST_S = 600.0
PERIOD_S = 0.002                    # of one worker: short against a call of ten milliseconds
_START_S = 60.0                     # to compile a kernel, at the worst


@dataclass(frozen=True)
class Held:
    """A share that was asked for, and what was measured: the median of windows, their middle half.

    `others` is what programs besides the workers took of these cores, None if it is not known."""

    asked: float
    share: float
    spread: float
    windows: int
    others: float | None
    others_reason: str = ""

    def __str__(self) -> str:
        others = "unknown" if self.others is None else f"{self.others:.0%}"
        return (f"{self.share:.0%} of {self.asked:.0%} asked for (spread {self.spread:.1%}, "
                f"{self.windows} windows); others {others}")


@dataclass(frozen=True)
class Moment:
    """CPU or device seconds of the workers, and of everybody on their cores if it is told."""

    at_s: float
    used_s: float
    busy_s: float | None


class LoadGenerator:
    """Holds cores at a share of theirs, or a device at a share of its own, until it is closed.

    `cores` are those of the host to be loaded, a worker and more for each. With `device` the work
    is OpenCL launches; a device that is the host's CPU needs `cores` too, another one must have
    none. No worker outlives `limit_s`. The least load is none: the workers sleep."""

    def __init__(self, *, cores: Sequence[int] = (), device: str | None = None,
                 limit_s: float = 60.0, highest: float = HIGHEST, seed: int = 0) -> None:
        if not cores and device is None:
            raise BadInput("a load on nothing", fix="LoadGenerator(cores=(1,)), or device='...'")
        if not 0 < highest <= HIGHEST or not 0 < limit_s <= LONGEST_S:
            raise BadInput(f"a load of up to {highest:.0%} for {limit_s:g} s",
                           why=f"a load is at most {HIGHEST:.0%}, for at most {LONGEST_S:g} s")
        missing = set(cores) - os.sched_getaffinity(0)
        if missing:
            raise BadInput(f"a load on core {min(missing)}",
                           why=f"this process may use {sorted(os.sched_getaffinity(0))}")
        self.cores, self.device, self.highest = tuple(cores), device, highest
        self._what = " ".join([*(["device", device] if device else []),
                               *([f"core {' and '.join(map(str, cores))}"] if cores else [])])
        self._each = ceil(highest / (1 - highest) - 1e-9) if cores else 1
        self._asked = 0.0
        self._until_s = time.monotonic() + limit_s
        places: list[int | None] = [core for core in cores for _ in range(self._each)] or [None]
        self._workers: list[subprocess.Popen[str]] = []
        try:
            for number, core in enumerate(places):
                asked = Asked(limit_s=limit_s, period_s=PERIOD_S, seed=seed + number, core=core,
                              device=device)
                self._workers.append(_started(asked))
            for worker in self._workers:
                self._wait_for(worker)
        except BaseException:
            self.close()
            raise
        self._clocks = [ProcessClock(worker.pid) for worker in self._workers]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._workers)

    def hold(self, share: float) -> None:
        """From now on the load is `share` of each core, or of the device."""
        if not 0 <= share <= self.highest:
            raise BadInput(f"a load of {share:.0%}", why=f"this one was made for up to "
                           f"{self.highest:.0%}", fix=f"LoadGenerator(..., highest={share:g})")
        self._asked = share
        # As few as can hold it: a load by many is felt more than one by a single program.
        needed = min(self._each, max(1, ceil(share / (1 - share) - 1e-9)))
        for number, worker in enumerate(self._workers):
            mine = share / needed if number % self._each < needed else 0.0
            self._tell(worker, f"{mine:.6f}")

    def check(self, seconds: float, windows: int = 10) -> Held:
        """Measure for so long, and refuse if the share is off by more than five percent points."""
        moments = [self.moment()]
        for number in range(windows):
            until = moments[0].at_s + (number + 1) * seconds / windows
            time.sleep(max(0.0, until - time.monotonic()))
            moments.append(self.moment())
        return self.judged(moments)

    def judged(self, moments: Sequence[Moment]) -> Held:
        """What was held between these moments; DeviceError if it is not what was asked for."""
        parts = max(1, len(self.cores))
        shares = [(b.used_s - a.used_s) / ((b.at_s - a.at_s) * parts)
                  for a, b in itertools.pairwise(moments)]
        first, last = moments[0], moments[-1]
        others = self._others(first, last)
        held = Held(self._asked, median(shares), middle_half(shares), len(shares), others,
                    "" if others is not None else "the system does not tell of these cores")
        whole = (last.used_s - first.used_s) / ((last.at_s - first.at_s) * parts)
        if abs(whole - self._asked) > TOLERANCE:
            raise DeviceError(f"a load of {self._asked:.0%} on {self._what}",
                              why=f"it came to {whole:.0%}; {held}",
                              fix="a quieter machine, or a lower share")
        return held

    def others_share(self, seconds: float) -> float:
        """What programs besides the workers use of these cores; 0 where nobody can tell."""
        first = self.moment()
        time.sleep(seconds)
        return self._others(first, self.moment()) or 0.0

    def _others(self, first: Moment, last: Moment) -> float | None:
        if first.busy_s is None or last.busy_s is None:
            return None
        taken = (last.busy_s - first.busy_s) - (last.used_s - first.used_s)
        return max(0.0, taken / ((last.at_s - first.at_s) * max(1, len(self.cores))))

    def moment(self) -> Moment:
        """For `judged`: what the workers have used by now."""
        if self.device is not None and not self.cores:
            used = 0.0
            for worker in self._workers:
                self._tell(worker, "used")
                used += float(self._line(worker).split()[0])
            return Moment(time.monotonic(), used, None)
        total = 0.0
        for worker, clock in zip(self._workers, self._clocks, strict=True):
            (value,) = clock.read()         # the kernel's count, not the worker's word
            if isinstance(value, str) or worker.poll() is not None:
                raise self._over()
            total += value
        return Moment(time.monotonic(), total, _busy_s(self.cores))

    def _tell(self, worker: subprocess.Popen[str], line: str) -> None:
        assert worker.stdin is not None
        if worker.poll() is not None:
            raise self._over()
        worker.stdin.write(line + "\n")
        worker.stdin.flush()

    def _line(self, worker: subprocess.Popen[str]) -> str:
        assert worker.stdout is not None
        if not (line := worker.stdout.readline()):
            raise self._over()
        return line

    def _wait_for(self, worker: subprocess.Popen[str]) -> None:
        if self._line(worker).strip() != "ready":
            raise self._over()

    def _over(self) -> DeviceError:
        late = time.monotonic() > self._until_s
        why = "its time is over" if late else "a worker has ended; standard error says why"
        return DeviceError(f"a load on {self._what}", why=why, fix="a larger limit_s" if late
                           else "")

    def close(self) -> None:
        """No worker runs afterwards."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            for pipe in (worker.stdin, worker.stdout):
                assert pipe is not None
                pipe.close()
            worker.wait()

    def __enter__(self) -> LoadGenerator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _started(asked: Asked) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "handtorch.offload.load_worker", json.dumps(asdict(asked))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=knobs.environment_for_child())


def _busy_s(cores: Sequence[int]) -> float | None:
    try:
        known = core_seconds(Path("/proc/stat").read_text())
    except (OSError, ValueError):           # Android hides it
        return None
    if not set(cores) <= known.keys():
        return None
    return sum(known[core][0] for core in cores)
