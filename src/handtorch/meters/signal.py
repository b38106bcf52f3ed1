"""The vocabulary of meters: a signal, the sensor that reads some at once, and what was not found.

A quantity ends in its unit, always one of `UNITS`: files in mA, uJ or kHz are converted where they
are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

UNITS = ("w", "j", "v", "a", "s", "hz", "c", "bytes", "ratio", "count")
# What one reading says, and so how energy is worked out from it:
Kind = Literal[
    "instant",      # the value now, or over the last few ms
    "window",       # the mean over the last `span_ns`
    "lowpass",      # an exponential mean with time constant `span_ns`
    "counter",      # the sum since some beginning; brought up to date every `span_ns`
    "gauge",        # a state: holds until the next reading
]
# Was the form of these files taken from a machine, or only from documentation?
Basis = Literal["captured", "documented"]

FAST_NS, MEDIUM_NS, SLOW_NS = 10_000_000, 100_000_000, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that can be read again and again; `meter` and `quantity` together name it."""

    meter: str                      # the family: "rapl", "ina3221", "procfs"
    quantity: str                   # "vdd_gpu_power_w", "cpu0_busy_s"
    kind: Kind
    part: str                       # of what it speaks: machine, cpu, cpu0, gpu, memory ...
    every_ns: int                   # how often it is worth reading: FAST_NS, MEDIUM_NS, SLOW_NS
    span_ns: int = 0
    parent: str = ""                # quantity of the rail of which this one is a part
    step: float = 0.0               # between two values that differ by the least; 0 is unknown
    wraps_at: float | None = None   # a counter falls to 0 when it reaches this
    basis: Basis = "captured"
    where: str = ""                 # the file, as it is called on the machine

    def __post_init__(self) -> None:
        unit = self.quantity.rsplit("_", 1)[-1]
        assert unit in UNITS, f"{self.quantity}: a quantity ends in one of {', '.join(UNITS)}"


Value = float | str                 # or why there is none


class Sensor(Protocol):
    """Reads its signals together, from files that it keeps open.

    `read` never raises for what a machine may do (a file that goes away, a permission, a changed
    format): that signal's value is then the reason, as text."""

    signals: tuple[Signal, ...]
    waits: bool                     # a read may wait for hardware: it gets a thread of its own

    def read(self) -> Sequence[Value]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Absent:
    """A family, or one of its parts, that cannot be read here."""

    meter: str
    why: str
    fix: str = ""


@dataclass(frozen=True)
class Found:
    """What a search gave: nothing is left out without a reason."""

    sensors: tuple[Sensor, ...] = ()
    absent: tuple[Absent, ...] = field(default=())

    @property
    def signals(self) -> tuple[Signal, ...]:
        return tuple(s for sensor in self.sensors for s in sensor.signals)


# A family: given the folder that stands for `/`, what it can read there. Opens nothing for long
# when it finds nothing, and never raises.
Search = Callable[[Path], Found]
