"""Temperatures of the kernel's thermal zones.

Form: Documentation/ABI/testing/sysfs-class-thermal of the Linux kernel."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from handtorch.meters.file import hint, within
from handtorch.meters.parse import distinct, number, plain
from handtorch.meters.reading import gather, lacking, single
from handtorch.meters.signal import SLOW_NS, Found, Signal, Value

METER = "thermal"
_COLDEST_C, _HOTTEST_C = -60.0, 200.0
_OFF_MC = -256_000                      # Jetson boards, of an engine without power
_PARTS = {"gpu": ("gpu", "kgsl", "mali"), "cpu": ("cpu", "core", "pkg", "k10"),
          "memory": ("ddr", "mem", "emc"), "battery": ("batt",)}  # fmt: skip


def find(root: Path) -> Found:
    """One gauge for each zone, named for its type."""
    home = root / "sys/class/thermal"
    zones = within(home, "thermal_zone[0-9]+")
    if not zones:
        return lacking(METER, root, home, "zone")
    kinds = {zone: plain(hint(zone / "type") or zone.name) for zone in zones}
    alike = Counter(kinds.values())
    names = distinct(
        kind if alike[kind] == 1 else f"{kind}_{zone.name.removeprefix('thermal_')}"
        for zone, kind in kinds.items()
    )
    # Some sensors sit behind a bus or the firmware.
    return gather(METER, [
        single(root, zone / "temp", Signal(METER, f"{name}_c", "gauge", _part(kind), SLOW_NS),
               celsius)
        for (zone, kind), name in zip(kinds.items(), names, strict=True)
    ], waits=True)  # fmt: skip


def celsius(text: str) -> Value:
    """Degrees from the kernel's thousandths, or why that is no temperature. Raises ValueError."""
    milli = number(text)
    if milli == _OFF_MC:
        return "powered off"
    if -1000 < milli < 1000:
        # Older phones count in whole degrees, and a zone without a sensor says 0.
        return f"says {milli}: in thousandths of a degree that is no working machine"
    if not _COLDEST_C <= milli / 1000 <= _HOTTEST_C:
        return f"{milli / 1000:g} C is no temperature of a working machine"
    return milli / 1000


def _part(kind: str) -> str:
    return next((part for part, marks in _PARTS.items() if any(mark in kind for mark in marks)),
                "machine")
