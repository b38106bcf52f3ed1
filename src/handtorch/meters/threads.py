"""What one process uses: the time of all its threads, of each thread, and its memory.

The time of the whole process comes from its clock in the kernel (clock_getcpuclockid(3)): exact at
the moment it is read, threads that have ended and those yet to come included. Of single threads
there are signals for those that live at the search; to see the ones made since, search again.

Forms: Documentation/filesystems/proc.rst (stat, statm) and Documentation/scheduler/sched-stats.rst
of the Linux kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

from handtorch.meters.file import said, there, within
from handtorch.meters.parse import count
from handtorch.meters.reading import gather, joined, lacking, nothing, single
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, SLOW_NS, Found, Signal, Value

METER = "threads"
_clock_gettime = time.clock_gettime          # bound once: it is called at every wake-up
_CLOCK_MONOTONIC_COARSE = 6             # moves once a tick; Python has no name for it
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find(root: Path, pid: int) -> Found:
    """Everything here of one process; `root` is the image of the machine on which it runs."""
    home = root / "proc" / str(pid)
    if not there(home):
        return nothing(METER, f"no process {pid}")
    return joined((_find_clock(root, pid), _find_threads(root, home), _find_size(root, home)))


class ProcessClock:
    """CPU seconds of a process, all its threads together, dead ones included; never falls."""

    waits = False

    def __init__(self, pid: int) -> None:
        self.signals: tuple[Signal, ...] = (
            Signal(METER, "process_busy_s", "counter", "process", FAST_NS, step=1e-9,
                   where=f"clock_getcpuclockid({pid})"),
        )  # fmt: skip
        self._clock = ~pid << 3 | 2         # the kernel's name for it: CPUCLOCK_SCHED of this pid

    def read(self) -> tuple[Value]:
        try:
            return (_clock_gettime(self._clock),)
        except OSError as error:            # EINVAL: there is no such process any more
            return (f"the process has no clock ({said(error)}): it has ended",)

    def close(self) -> None:
        pass


def _find_clock(root: Path, pid: int) -> Found:
    if os.path.realpath(root) != "/":
        return nothing(METER, "process_busy_s: a clock of the running kernel, not one of its files")
    sensor = ProcessClock(pid)
    (value,) = sensor.read()
    return Found((sensor,)) if isinstance(value, float) else nothing(METER, value)


def run_seconds(text: str) -> float:
    """How long a thread ran; brought up to date at a tick, or when it leaves its core."""
    fields = text.split()
    if len(fields) != 3:
        raise ValueError(f"has {len(fields)} counts, not 3")
    return count(fields[0]) / 1e9


def _find_threads(root: Path, home: Path) -> Found:
    threads = within(home / "task", "[0-9]+")
    if not threads:
        return lacking(METER, root, home / "task", "thread")
    tick_ns = round(1e9 * time.clock_getres(_CLOCK_MONOTONIC_COARSE))
    return gather(METER, [
        single(root, thread / "schedstat", Signal(
            METER, f"thread{thread.name}_busy_s", "counter", f"thread{thread.name}", SLOW_NS,
            tick_ns, step=1e-9,
        ), run_seconds)
        for thread in threads
    ])  # fmt: skip


def resident_bytes(text: str) -> float:
    fields = text.split()
    if len(fields) != 7:
        raise ValueError(f"has {len(fields)} counts, not 7")
    return float(count(fields[1]) * _PAGE_BYTES)


def thread_count(text: str) -> Value:
    fields = text.rpartition(")")[2].split()       # the name before may hold blanks and brackets
    if len(fields) < 18:
        raise ValueError(f"has {len(fields)} fields after the name, not 18 or more")
    return float(count(fields[17])) or "the process has ended"


def _find_size(root: Path, home: Path) -> Found:
    size = Signal(METER, "process_resident_bytes", "gauge", "memory", MEDIUM_NS,
                  step=float(_PAGE_BYTES))
    threads = Signal(METER, "threads_count", "gauge", "process", SLOW_NS, step=1.0)
    return joined((
        gather(METER, (single(root, home / "statm", size, resident_bytes),)),
        gather(METER, (single(root, home / "stat", threads, thread_count),)),
    ))
