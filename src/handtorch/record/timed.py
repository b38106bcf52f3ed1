"""The rows that lie on a time axis: clocks, steps, what ran in them, and when nothing did."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from handtorch.record.row import Provenance, Row

SyncKind = Literal["timer", "write", "events"]
Quality = Literal["stamped", "bounded"]


def _order_fault(start_ns: int | None, end_ns: int | None) -> str:
    if start_ns is None or end_ns is None or start_ns <= end_ns:
        return ""
    return f"it ends at {end_ns} ns, before it starts at {start_ns} ns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock(Row):
    """A clock time stamps come from: CLOCK_MONOTONIC = stamp + offset_ns, within error_ns."""

    TABLE = "clock"
    KEY = ("name",)
    LEAST = MappingProxyType({"error_ns": 0})
    REASONS = MappingProxyType({"offset_reason": ("offset_ns", "error_ns")})
    name: str
    offset_ns: int | None
    error_ns: int | None
    offset_reason: str = ""
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Row):
    """When a clock showed `device_ns`, CLOCK_MONOTONIC showed `monotonic_ns`, within `error_ns`."""

    TABLE = "sync"
    LEAST = MappingProxyType({"error_ns": 0})
    REFERS = MappingProxyType({"clock": "clock"})
    clock: str
    device_ns: int
    monotonic_ns: int
    error_ns: int
    kind: SyncKind
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Row):
    """One step of `subject` (model and batch), first enqueue to end of the last wait."""

    TABLE = "step"
    KEY = ("id",)
    LEAST = MappingProxyType({"number": 0})
    REFERS = MappingProxyType({"place": "place", "clock": "clock"})
    id: int
    place: str
    subject: str
    number: int
    kind: str
    clock: str
    start_ns: int
    end_ns: int
    provenance: Provenance

    def fault(self) -> str:
        return _order_fault(self.start_ns, self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Row):
    """One kernel launch or host action; a time the driver garbled is None with `times_reason`.

    Lane `host` feeds the place, any other is its work. A `bounded` one ran inside start and end.
    `spared_bytes` is what it and the launch before it would not move if they were one."""

    TABLE = "launch"
    KEY = ("step", "number")
    LEAST = MappingProxyType({"number": 0, "flops": 0, "moved_bytes": 0, "error_ns": 0,
                              "spared_bytes": 0})
    REASONS = MappingProxyType({
        "times_reason": ("queued_ns", "submit_ns", "start_ns", "end_ns"),
        "work_reason": ("flops", "moved_bytes"),
        "spared_reason": ("spared_bytes",),
    })
    REFERS = MappingProxyType({"step": "step", "clock": "clock"})
    step: int
    number: int
    kernel: str
    op: str
    layer: str = ""
    phase: str
    source_line: str = ""
    clock: str
    queued_ns: int | None
    submit_ns: int | None
    start_ns: int | None
    end_ns: int | None
    times_reason: str = ""
    flops: int | None
    moved_bytes: int | None
    work_reason: str = ""
    provenance: Provenance
    lane: str = "queue"
    node: str = ""
    quality: Quality = "stamped"
    error_ns: int = 0
    spared_bytes: int | None = None
    spared_reason: str = "not worked out"

    def fault(self) -> str:
        if not self.lane:
            return "lane is empty"
        return _order_fault(self.start_ns, self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(Row):
    """Time of a step in which no lane but `host` worked, and why."""

    TABLE = "gap"
    KEY = ("step", "number")
    LEAST = MappingProxyType({"number": 0})
    REFERS = MappingProxyType({"step": "step", "clock": "clock"})
    step: int
    number: int
    cause: str
    clock: str
    start_ns: int
    end_ns: int
    provenance: Provenance

    def fault(self) -> str:
        return _order_fault(self.start_ns, self.end_ns) if self.cause else "it has no cause"
