"""What every Linux tells, for the benchmark of sampling: time of threads, and of cores.

Standard library only: the sampler's process loads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from handtorch.meters.file import KeptFile, said
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, Absent, Found, Signal, Value


class Cores:
    """Seconds in which each core was busy, from /proc/stat: it counts in steps of 10 ms, so that
    reading it every 10 ms would say no more."""

    waits = False

    def __init__(self, root: Path) -> None:
        self._file = KeptFile(root / "proc/stat")
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._names = [line.split()[0] for line in self._lines()]
        self.signals = tuple(Signal("procfs", f"{name}_busy_s", "counter", name, MEDIUM_NS)
                             for name in self._names)

    def _lines(self) -> list[str]:
        lines = self._file.text().split("\n")
        return [line for line in lines if line.startswith("cpu") and line[3] != " "]

    def read(self) -> Sequence[Value]:
        try:
            lines = self._lines()
        except OSError as e:
            return [said(e)] * len(self.signals)
        busy: dict[str, Value] = {}
        for line in lines:
            name, user, nice, system, _, _, irq, soft, stolen, *_ = line.split()
            busy[name] = self._tick_s * sum(map(int, (user, nice, system, irq, soft, stolen)))
        return [busy.get(name, "the core is off") for name in self._names]

    def close(self) -> None:
        self._file.close()


class Threads:
    """Seconds that each thread of a process ran, from schedstat."""

    waits = False

    def __init__(self, root: Path, pid: int) -> None:
        tasks = root / f"proc/{pid}/task"
        names = sorted(os.listdir(tasks), key=int)
        self._files = [KeptFile(tasks / name / "schedstat") for name in names]
        self.signals = tuple(Signal("schedstat", f"thread{name}_run_s", "counter", f"thread{name}",
                                    FAST_NS) for name in names)

    def read(self) -> Sequence[Value]:
        return [self._one(file) for file in self._files]

    @staticmethod
    def _one(file: KeptFile) -> Value:
        try:
            return int(file.text().partition(" ")[0]) / 1e9
        except OSError as e:
            return said(e)

    def close(self) -> None:
        for file in self._files:
            file.close()


def find(root: Path, pid: int) -> Found:
    """Both, where they can be had."""
    sensors: list[Cores | Threads] = []
    absent = []
    for name, make in (("procfs", lambda: Cores(root)), ("schedstat", lambda: Threads(root, pid))):
        try:
            sensors.append(make())
        except OSError as e:
            absent.append(Absent(name, said(e)))
    return Found(tuple(sensors), tuple(absent))
