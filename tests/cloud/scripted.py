"""Places that take as long as a test says: what decides and acts on them is the real thing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from handtorch.cloud.headers import read_header
from handtorch.cloud.pictures import encode
from handtorch.cloud.recognised import STEPS, Recognised
from handtorch.errors import HandTorchError
from handtorch.meters.used import Span


def photo(folder: Path, height: int = 300, width: int = 400) -> Path:
    path = folder / f"photo_{width}x{height}.jpg"
    pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
    path.write_bytes(encode(pixels, "JPEG"))
    return path


def recognised(path: Path, steps_ms: Mapping[str, float], begin_ns: int, *, sent_bytes: int = 0,
               whole_ms: float | None = None) -> Recognised:
    """`whole_ms` is the time that it is said to have taken, the real one if not named."""
    data = path.read_bytes()
    header = read_header(data)
    end_ns = time.perf_counter_ns() if whole_ms is None else begin_ns + round(1e6 * whole_ms)
    return Recognised(path.name, header.width, header.height, len(data), sent_bytes, (), "scripted",
                      {**dict.fromkeys(STEPS, 0.0), **steps_ms},
                      Span(begin_ns, end_ns, (end_ns - begin_ns), None, 10**8))


@dataclass
class Device:
    """Computes for `compute_ms`; in truth, or so it says if `said` is set."""

    compute_ms: float = 20.0
    rescale_ms: float = 2.0
    said: bool = True
    calls: int = 0
    threads: set[int] = field(default_factory=set)

    def load(self) -> None:
        self.threads.add(threading.get_ident())

    def close(self) -> None:
        pass

    def __call__(self, path: Path) -> Recognised:
        self.calls += 1
        self.threads.add(threading.get_ident())
        begin_ns, whole = time.perf_counter_ns(), self.compute_ms + self.rescale_ms
        if not self.said:
            time.sleep(whole / 1e3)
        return recognised(path, {"rescale": self.rescale_ms, "compute": self.compute_ms}, begin_ns,
                          whole_ms=whole if self.said else None)


@dataclass
class Server:
    """`rtt_ms` and `mbps` of a network, `compute_ms` of a server; stalls or fails on demand."""

    mbps: float = 8.0
    trip_ms: float = 5.0
    compute_ms: float = 5.0
    rescale_ms: float = 2.0
    said: bool = True
    stalls_s: float = 0.0
    fails: bool = False
    sent: list[str] = field(default_factory=list)
    was_cut: threading.Event = field(default_factory=threading.Event)
    closed: int = 0

    def rtt_ms(self, times: int = 5) -> float:
        if self.fails:
            raise HandTorchError("no answer from the script", why="it fails")
        return self.trip_ms

    def cut(self) -> None:
        self.was_cut.set()

    def close(self) -> None:
        self.closed += 1
        self.was_cut.clear()

    def __call__(self, path: Path, sending: str | None = None) -> Recognised:
        begin_ns = time.perf_counter_ns()
        self.sent.append(str(sending))
        if self.fails:
            raise HandTorchError("no answer from the script", why="it fails")
        if self.stalls_s and self.was_cut.wait(self.stalls_s):
            raise HandTorchError("no answer from the script", why="it was cut")
        small = sending != "original"
        size = {"png": 100_000, "jpeg": 30_000}.get(str(sending), path.stat().st_size)
        network_ms = self.trip_ms + 8 * size / self.mbps / 1e3
        rescale_ms = self.rescale_ms if small else 0.0
        whole = rescale_ms + network_ms + self.compute_ms
        if not self.said and not self.stalls_s:
            time.sleep(whole / 1e3)
        return recognised(path, {"rescale": rescale_ms, "upload": network_ms - self.trip_ms,
                                 "compute": self.compute_ms}, begin_ns, sent_bytes=size,
                          whole_ms=whole if self.said else None)
