"""A device's sheet: a TOML file that says what its parts draw and do, and where that is from.

Used where there is no sensor, or no device. What comes of it is `estimated` for work that ran, and
`simulated` for work that did not; never called measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput
from handtorch.place.toml_file import Checked, Kind

SHIPPED = Path(__file__).parent / "sheets"
_KIND = Kind("sheet", SHIPPED,
             "see docs/sheets.md, or copy one that ships: `handtorch profile --sheet nexus-5`")


@dataclass(frozen=True)
class Figure:
    """A number of the sheet and where it was found; None where the sheet does not have it.

    `unconfirmed`: the source was not read itself, or sources disagree. `proxy` names another device
    that the number is of."""

    value: float | None
    source: str
    unconfirmed: bool = False
    proxy: str = ""

    @property
    def doubt(self) -> str:
        """What to say wherever the number is used; empty if nothing."""
        of = f"of {self.proxy}" if self.proxy else ""
        return ", ".join(filter(None, (of, "unconfirmed" if self.unconfirmed else "")))


@dataclass(frozen=True)
class CoreKind:
    """Cores that are alike: what one draws when busy, above the idle power of the device."""

    name: str
    count: int
    busy_w: float
    source: str


@dataclass(frozen=True)
class Processor:
    """What can run programs, at its best: operations and bytes a second, seconds for a launch that
    is one of many, for a copy to begin, and bytes a second of a copy between host and device."""

    kind: str                           # gpu or cpu
    name: str
    flops_per_s: Figure
    bytes_per_s: Figure
    launch_s: Figure
    copy_s: Figure
    copy_bytes_per_s: Figure
    limits: Mapping[str, int | bool | str]      # of a DeviceSpec, by its names
    limits_source: str

    def figures(self) -> dict[str, Figure]:
        return {name: getattr(self, name) for name in RATES}


RATES = ("flops_per_s", "bytes_per_s", "launch_s", "copy_s", "copy_bytes_per_s")
KINDS = ("gpu", "cpu")
LIMITS = {"compute_units": int, "clock_mhz": int, "max_work_group": int, "local_bytes": int,
          "global_bytes": int, "largest_allocation_bytes": int, "float_width": int, "fp16": bool,
          "unified_memory": bool, "device_version": str, "opencl_c": str}


@dataclass(frozen=True)
class Sheet:
    name: str
    idle_w: Figure                      # the whole device, doing nothing
    cores: tuple[CoreKind, ...]
    gpu_w: Figure                       # the GPU when busy, above idle
    memory_j: Figure                    # one byte read or written
    processors: tuple[Processor, ...] = ()
    capacity_bytes: Figure = Figure(None, "the sheet has no [capacity]")
    radios_w: Mapping[str, Figure] = field(default_factory=dict)    # while sending or receiving

    @property
    def core_count(self) -> int:
        return sum(kind.count for kind in self.cores)

    def processor(self, kind: str = "") -> Processor:
        """The one of that kind; without a kind the GPU, or what there is."""
        for wanted in (kind,) if kind else KINDS:
            for found in self.processors:
                if found.kind == wanted:
                    return found
        there = ", ".join(p.kind for p in self.processors) or "none"
        raise BadInput(f"{self.name}: no {kind or 'processor'}", why=f"its sheet describes {there}",
                       fix="a [processor.gpu] or [processor.cpu] in it, see docs/sheets.md")

    def cores_w(self, busy: float) -> float | None:
        """What `busy` cores draw above idle, the strongest kind first; None if there are none."""
        if not self.cores:
            return None
        drawn, left = 0.0, busy
        for kind in sorted(self.cores, key=lambda k: -k.busy_w):
            used = min(left, float(kind.count))
            drawn, left = drawn + used * kind.busy_w, left - used
        return drawn


def shipped() -> tuple[str, ...]:
    return _KIND.shipped()


def read_sheet(named: str | os.PathLike[str]) -> Sheet:
    """The sheet in a file, or the shipped one of that name."""
    path = _KIND.path(named)
    return _Reader(_KIND, path).sheet(_KIND.read(path))


class _Reader(Checked):
    """Every word of a sheet is known, every figure has a source."""

    def sheet(self, given: dict[str, Any]) -> Sheet:
        self.only("the sheet", given, {"name", "idle", "cores", "gpu", "memory", "processor",
                                        "capacity", "radio"})
        kinds = given.get("cores", [])
        if not isinstance(kinds, list):
            raise self.refusal("cores is not a list: write [[cores]] for each kind")
        return Sheet(self.text("the sheet", given, "name"),
                     self._figure(given, "idle", "watts"), tuple(map(self._kind, kinds)),
                     self._figure(given, "gpu", "busy_watts"),
                     self._figure(given, "memory", "joules_per_byte"),
                     tuple(self._processor(kind, p) for kind, p
                           in self._tables(given, "processor", KINDS)),
                     self._figure(given, "capacity", "bytes"),
                     {name: self._figure({name: radio}, name, "active_watts")
                      for name, radio in self._tables(given, "radio", ("wifi", "lte", "3g"))})

    def _kind(self, given: Any) -> CoreKind:
        self.only("cores", given, {"kind", "count", "busy_watts", "source"})
        count: Any = given.get("count")
        if type(count) is not int or not 0 < count <= 4096:
            raise self.refusal(f"cores.count is {count!r}, not a number of cores")
        return CoreKind(self.text("cores", given, "kind"), count,
                        self.number("cores", given, "busy_watts"),
                        self.text("cores", given, "source"))

    def _tables(self, given: dict[str, Any], part: str, names: tuple[str, ...]
                ) -> list[tuple[str, Any]]:
        tables = given.get(part, {})
        self.only(part, tables, set(names))
        return list(tables.items())

    def _processor(self, kind: str, given: Any) -> Processor:
        part = f"processor.{kind}"
        self.only(part, given, {"name", "limits", *RATES})
        limits = given.get("limits", {})
        self.only(f"{part}.limits", limits, {"source", *LIMITS})
        for name, value in limits.items():
            if name != "source" and type(value) is not LIMITS[name]:
                raise self.refusal(f"{part}.limits.{name} is {value!r}, not of type "
                                   f"{LIMITS[name].__name__}")
        source = self.text(f"{part}.limits", limits, "source") if limits else ""
        figures = {name: self._figure(given, name, "value", f"{part}.{name}") for name in RATES}
        return Processor(kind=kind, name=self.text(part, given, "name"), **figures,
                         limits={k: v for k, v in limits.items() if k != "source"},
                         limits_source=source or f"the sheet has no [{part}.limits]")

    def _figure(self, given: dict[str, Any], part: str, word: str, called: str = "") -> Figure:
        """A number with its source; or `unknown` with the reason, which is the source then."""
        called = called or part
        if part not in given:
            return Figure(None, f"the sheet has no [{called}]")
        table = given[part]
        if isinstance(table, dict) and set(table) == {"unknown"}:
            return Figure(None, self.text(called, table, "unknown"))
        self.only(called, table, {word, "source", "unconfirmed", "proxy"})
        return Figure(self.number(called, table, word), self.text(called, table, "source"),
                      self.flag(called, table, "unconfirmed"),
                      self.text(called, table, "proxy") if "proxy" in table else "")
