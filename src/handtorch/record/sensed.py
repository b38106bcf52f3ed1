"""The rows of what was sensed: signals, readings, the joules worked out, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from handtorch.record.row import Provenance, Row

SignalKind = Literal["instant", "window", "lowpass", "counter", "gauge"]
Basis = Literal["captured", "documented"]
Level = Literal["rail", "idle", "unattributed", "step", "phase", "layer", "op"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Row):
    """One thing that was read again and again; `kind` is what one reading says."""

    TABLE = "signal"
    KEY = ("meter", "quantity")
    LEAST = MappingProxyType({"every_ns": 0, "span_ns": 0, "step": 0})
    meter: str
    quantity: str
    kind: SignalKind
    part: str
    parent: str = ""
    every_ns: int
    span_ns: int = 0
    step: float = 0.0
    wraps_at: float | None = None
    basis: Basis = "captured"
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Row):
    """One reading of one sensor, taken within `error_ns` of `time_ns`; `quantity` ends in its unit
    (`gpu_power_w`)."""

    TABLE = "sample"
    LEAST = MappingProxyType({"error_ns": 0})
    REASONS = MappingProxyType({"value_reason": ("value",)})
    REFERS = MappingProxyType({"clock": "clock"})
    time_ns: int
    clock: str
    meter: str
    quantity: str
    value: float | None
    value_reason: str = ""
    provenance: Provenance
    error_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy(Row):
    """Joules of all steps together that one signal gives to one part of `subject`.

    The parts of a level, with idle and unattributed, add up to the rail. Measured ones lie between
    low and high with 95 %."""

    TABLE = "energy"
    KEY = ("place", "subject", "meter", "quantity", "level", "name")
    LEAST = MappingProxyType({"instances": 0, "seconds": 0, "readings": 0})
    REASONS = MappingProxyType({"total_reason": ("total_j",), "dynamic_reason": ("dynamic_j",)})
    REFERS = MappingProxyType({"place": "place"})
    place: str
    subject: str
    meter: str
    quantity: str
    level: Level
    name: str
    instances: int
    seconds: float
    readings: int
    total_j: float | None
    total_reason: str = ""
    low_j: float | None = None
    high_j: float | None = None
    dynamic_j: float | None
    dynamic_reason: str = ""
    how: str
    provenance: Provenance

    def fault(self) -> str:
        if (self.low_j is None) != (self.high_j is None):
            return "low_j and high_j go together"
        if self.low_j is not None and self.high_j is not None and self.low_j > self.high_j:
            return f"low_j {self.low_j} is above high_j {self.high_j}"
        return "" if self.how else "how does not say where it comes from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing(Row):
    """What was not sensed: `time_ns` is when it began to be missing, None if it never was there."""

    TABLE = "missing"
    source: str
    why: str
    fix: str = ""
    time_ns: int | None = None

    def fault(self) -> str:
        return "" if self.why else "why is empty"
