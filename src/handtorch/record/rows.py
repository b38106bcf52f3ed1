"""The rows of a run file as frozen dataclasses, one per table; `Run` is a whole file read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from handtorch.record.row import Provenance, Row
from handtorch.record.sensed import Energy, Missing, Sample, Signal
from handtorch.record.timed import Clock, Gap, Launch, Step, Sync

Status = Literal["running", "complete", "interrupted", "failed"]
SelfTest = Literal["passed", "failed", "not run"]
PlaceKind = Literal["device", "host cpu", "cloud"]
Better = Literal["higher", "lower", "neither"]


def _x_fault(x_name: str, x_value: float | None) -> str:
    return "" if (x_name == "") == (x_value is None) else "x_name and x_value go together"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo(Row):
    """What was asked, when, and how it ended; `RunWriter` alone makes it."""

    TABLE = "run"
    KEY = ()
    LEAST = MappingProxyType({"duration_ns": 0})
    id: str
    command: str
    started_utc: str
    duration_ns: int | None = None
    status: Status = "running"
    status_reason: str = ""

    def fault(self) -> str:
        if (self.duration_ns is None) != (self.status == "running"):
            return f"status is {self.status} and duration_ns is {self.duration_ns}"
        if (self.status_reason != "") != (self.status in ("interrupted", "failed")):
            return f"status is {self.status} and status_reason is {self.status_reason!r}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Row):
    TABLE = "machine"
    KEY = ()
    LEAST = MappingProxyType({"cores": 1, "usable_cores": 1, "memory_bytes": 1})
    REASONS = MappingProxyType(
        {"cpu_model_reason": ("cpu_model",), "memory_reason": ("memory_bytes",)})
    cpu_model: str | None
    cpu_model_reason: str = ""
    architecture: str
    cores: int
    usable_cores: int
    memory_bytes: int | None
    memory_reason: str = ""
    os: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Software(Row):
    TABLE = "software"
    KEY = ("name",)
    REASONS = MappingProxyType({"version_reason": ("version",)})
    name: str
    version: str | None
    version_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Row):
    """An OpenCL device; `facts` is a JSON object with the whole DeviceSpec."""

    TABLE = "device"
    KEY = ("id",)
    LEAST = MappingProxyType({"compute_units": 1, "global_bytes": 0, "local_bytes": 0,
                              "largest_allocation_bytes": 0})
    id: int
    name: str
    vendor: str
    platform: str
    driver: str
    kind: str
    compute_units: int
    global_bytes: int
    local_bytes: int
    largest_allocation_bytes: int
    self_test: SelfTest
    facts: str = "{}"

    def fault(self) -> str:
        try:
            known = json.loads(self.facts)
        except json.JSONDecodeError as error:
            return f"facts is not JSON: {error}"
        return "" if isinstance(known, dict) else "facts is not a JSON object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Row):
    """Where work ran: a device by its id, the host's CPU, or a cloud."""

    TABLE = "place"
    KEY = ("name",)
    REASONS = MappingProxyType({"cores_reason": ("cores",)})
    REFERS = MappingProxyType({"device": "device"})
    name: str
    kind: PlaceKind
    device: int | None = None
    cores: str | None
    cores_reason: str = ""

    def fault(self) -> str:
        if (self.device is not None) == (self.kind == "device"):
            return ""
        return f"kind is {self.kind!r} and device is {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Row):
    """Whether two compared places share the same cores; None needs a reason, others may have it."""

    TABLE = "comparison"
    KEY = ("first", "second")
    REFERS = MappingProxyType({"first": "place", "second": "place"})
    first: str
    second: str
    same_silicon: bool | None
    same_silicon_reason: str = ""

    def fault(self) -> str:
        if self.same_silicon is None and not self.same_silicon_reason:
            return "same_silicon is unknown and same_silicon_reason does not say why"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Row):
    """Bytes of one role at one moment of `subject`; `launch` is the number of the launch that runs
    then, at the moments called "launch"."""

    TABLE = "memory"
    LEAST = MappingProxyType({"bytes": 0, "launch": 0})
    REASONS = MappingProxyType({"bytes_reason": ("bytes",)})
    REFERS = MappingProxyType({"place": "place"})
    place: str
    subject: str
    moment: str
    role: str
    bytes: int | None
    bytes_reason: str = ""
    provenance: Provenance
    launch: int | None = None

    def fault(self) -> str:
        if self.launch is not None and self.moment != "launch":
            return f"moment is {self.moment!r} and launch is {self.launch}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Row):
    """A study's figure: the median of `repeats`, its interquartile `spread`, and its bounds."""

    TABLE = "result"
    LEAST = MappingProxyType({"repeats": 0, "spread": 0})
    REASONS = MappingProxyType({"value_reason": ("value",)})
    REFERS = MappingProxyType({"place": "place"})
    study: str
    name: str
    subject: str
    place: str | None = None
    x_name: str = ""
    x_value: float | None = None
    x_unit: str = ""
    value: float | None
    value_reason: str = ""
    unit: str
    better: Better
    repeats: int
    spread: float | None = None
    provenance: Provenance
    low: float | None = None
    high: float | None = None
    bounds: str = ""

    def fault(self) -> str:
        if self.value is not None and self.repeats >= 2 and self.spread is None:
            return f"the median of {self.repeats} repeats needs its spread"
        if (self.low is None) != (self.high is None) or (self.low is None) != (self.bounds == ""):
            return "low, high and bounds go together"
        if self.low is not None and self.high is not None and self.low > self.high:
            return f"low {self.low} is above high {self.high}"
        return _x_fault(self.x_name, self.x_value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Row):
    """A figure somebody else printed; `source` says where."""

    TABLE = "published"
    study: str
    name: str
    subject: str
    x_name: str = ""
    x_value: float | None = None
    x_unit: str = ""
    value: float
    unit: str
    source: str

    def fault(self) -> str:
        if not self.source:
            return "source does not say where it was printed"
        return _x_fault(self.x_name, self.x_value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Row):
    """A study's question and its answer as one sentence for people."""

    TABLE = "verdict"
    study: str
    question: str
    answer: str
    holds: bool | None
    holds_reason: str = ""

    def fault(self) -> str:
        if not self.answer:
            return "the answer is empty"
        if self.holds is None and not self.holds_reason:
            return "holds is unknown and holds_reason does not say why"
        return ""


@dataclass(frozen=True)
class Run:
    """A whole run file, rows in the order they were written."""

    info: RunInfo
    machine: Machine | None = None
    software: tuple[Software, ...] = ()
    devices: tuple[Device, ...] = ()
    places: tuple[Place, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    clocks: tuple[Clock, ...] = ()
    syncs: tuple[Sync, ...] = ()
    steps: tuple[Step, ...] = ()
    launches: tuple[Launch, ...] = ()
    gaps: tuple[Gap, ...] = ()
    signals: tuple[Signal, ...] = ()
    samples: tuple[Sample, ...] = ()
    energies: tuple[Energy, ...] = ()
    missing: tuple[Missing, ...] = ()
    memory: tuple[Memory, ...] = ()
    results: tuple[Result, ...] = ()
    published: tuple[Published, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


# Every table but `run`, in an order in which each row's references come before it.
CHILDREN: Mapping[str, type[Row]] = MappingProxyType({
    "machine": Machine, "software": Software, "devices": Device, "places": Place,
    "comparisons": Comparison, "clocks": Clock, "syncs": Sync, "steps": Step,
    "launches": Launch, "gaps": Gap, "signals": Signal, "samples": Sample,
    "energies": Energy, "missing": Missing, "memory": Memory, "results": Result,
    "published": Published, "verdicts": Verdict,
})
