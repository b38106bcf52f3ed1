"""Sensors for tests of the sampler; its process finds them by the name of a function here."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from handtorch.meters.file import said
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, Absent, Found, Signal, Value


class Fake:
    """Gives 1, 2, 3 ..., and its double."""

    signals: tuple[Signal, ...]

    def __init__(self, name: str, every_ns: int = FAST_NS, waits: bool = False) -> None:
        self.waits = waits
        self.signals = (Signal(name, "single_count", "counter", "machine", every_ns),
                        Signal(name, "double_count", "counter", "machine", every_ns))
        self.count = 0

    def read(self) -> Sequence[Value]:
        self.count += 1
        return self.count, 2 * self.count

    def close(self) -> None:
        pass


class Takes(Fake):
    """A reading takes so long."""

    def __init__(self, name: str, seconds: float, waits: bool = False) -> None:
        super().__init__(name, waits=waits)
        self.seconds = seconds

    def read(self) -> Sequence[Value]:
        time.sleep(self.seconds)
        return super().read()


class Burns(Fake):
    """A reading computes for 5 ms."""

    def read(self) -> Sequence[Value]:
        until_ns = time.thread_time_ns() + 5_000_000
        while time.thread_time_ns() < until_ns:
            pass
        return super().read()


class Raises(Fake):
    def read(self) -> Sequence[Value]:
        raise ValueError("no number in 'x'")


class Forgets(Fake):
    def read(self) -> Sequence[Value]:
        return (1.0,)


class Blocks(Fake):
    """From the third reading on waits for a writer of root/fifo, who may never come."""

    def __init__(self, name: str, root: Path, waits: bool) -> None:
        super().__init__(name, waits=waits)
        self._fd = os.open(root / "fifo", os.O_RDWR)

    def read(self) -> Sequence[Value]:
        if self.count >= 2:
            os.read(self._fd, 1)
        return super().read()


class Tells(Fake):
    """What the file says, once it is opened again for each reading."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name)
        self._path = path

    def read(self) -> Sequence[Value]:
        try:
            value = float(self._path.read_text())
        except OSError as e:
            return said(e), said(e)
        return value, value


def plain(root: Path, pid: int) -> Found:
    return Found((Fake("fast"), Fake("medium", MEDIUM_NS)),
                 (Absent("rapl", "no folder powercap", "load the module intel_rapl"),))


def slow(root: Path, pid: int) -> Found:
    return Found((Takes("takes", 0.025),))


def slow_waits(root: Path, pid: int) -> Found:
    return Found((Fake("fast"), Takes("takes", 0.025, waits=True)))


def burning(root: Path, pid: int) -> Found:
    return Found((Burns("burns"),))


def broken(root: Path, pid: int) -> Found:
    return Found((Raises("raises"), Forgets("forgets"), Fake("fast")))


def blocked(root: Path, pid: int) -> Found:
    return Found((Fake("first"), Blocks("blocks", root, waits=False), Fake("fast")))


def blocked_waits(root: Path, pid: int) -> Found:
    return Found((Blocks("blocks", root, waits=True), Fake("fast")))


def vanishing(root: Path, pid: int) -> Found:
    return Found((Tells("tells", root / "value"), Fake("fast")))


def many(root: Path, pid: int) -> Found:
    """A chunk is full after some 0.4 s."""
    return Found(tuple(Fake(f"fast{i}") for i in range(400)))


def failing(root: Path, pid: int) -> Found:
    raise OSError(5, "Input/output error")
