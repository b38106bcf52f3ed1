"""Any chip of /sys/class/hwmon: power, energy, current, voltage, temperature.

Documentation/hwmon/sysfs-interface.rst has the files and their units. The chips of Jetson rails
and the batteries have families of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from handtorch.meters.file import KeptFile, hint, within
from handtorch.meters.ina3221 import Rails
from handtorch.meters.parse import count, number, plain
from handtorch.meters.reading import Entry, FileSensor, lacking, once, sifted, single
from handtorch.meters.signal import (
    FAST_NS,
    MEDIUM_NS,
    SLOW_NS,
    Absent,
    Found,
    Kind,
    Sensor,
    Signal,
    Value,
)
from handtorch.meters.thermal import celsius

METER = "hwmon"
_FOLDER = Path("sys/class/hwmon")
_INPUT = re.compile(r"(temp|in|curr|power|energy)(\d+)_(input|average)")
# What a chip speaks of; any other speaks of itself.
PARTS = {
    "coretemp": "cpu", "k10temp": "cpu", "zenpower": "cpu", "amd_energy": "cpu",
    "fam15h_power": "cpu", "cpu_thermal": "cpu", "amdgpu": "gpu", "i915": "gpu", "xe": "gpu",
    "nouveau": "gpu", "nvme": "disk", "drivetemp": "disk", "power_meter": "machine",
    "acpi_power_meter": "machine",
}  # fmt: skip


def _thousandths(text: str) -> float:
    return number(text) / 1e3


def _millionths(text: str) -> float:
    return number(text) / 1e6


# One file: what it is, in which unit, how often it is worth reading.
# Only temperatures and voltages are in trees that were taken from machines.
_SORTS: dict[str, tuple[str, Callable[[str], Value], Kind, int]] = {
    "temp": ("temp_c", celsius, "gauge", SLOW_NS),
    "in": ("voltage_v", _thousandths, "gauge", SLOW_NS),
    "curr": ("current_a", _thousandths, "instant", FAST_NS),
    "power": ("power_w", _millionths, "instant", FAST_NS),
    "energy": ("energy_j", _millionths, "counter", MEDIUM_NS),
}


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    sort: str
    number: int
    average: bool
    label: str


def find(root: Path) -> Found:
    """For each chip a sensor of what moves fast; one of all temperatures and lone voltages.

    A read may wait for a bus: each sensor has a thread of its own."""
    chips, absent = _chips(root)
    sensors: list[Sensor] = []
    slow: list[Entry] = []
    for name, folder in chips:
        entries, refused = _entries(root, name, folder)
        absent += refused
        pairs = _pairs(entries)
        rest = [one for one in entries if not any(one in pair for pair in pairs)]
        for every_ns in (FAST_NS, MEDIUM_NS):
            if own := [one for one in rest if one.signals[0].every_ns == every_ns]:
                sensors.append(FileSensor(own, waits=True))
        if pairs:
            sensors.append(Rails([_rail(*pair) for pair in pairs], voltage_ns=0))
        slow += [one for one in rest if one.signals[0].every_ns == SLOW_NS]
    if slow:
        sensors.append(FileSensor(slow, waits=True))
    if not sensors and not absent:
        return lacking(METER, root, root / _FOLDER, "chip with a sensor")
    return Found(tuple(sensors), tuple(absent))


def _rail(current: Entry, voltage: Entry) -> tuple[Signal, KeptFile, KeptFile]:
    quantity = current.signals[0].quantity.removesuffix("_current_a") + "_power_w"
    signal = replace(current.signals[0], quantity=quantity)
    return signal, KeptFile(current.path), KeptFile(voltage.path)


def _chips(root: Path) -> tuple[list[tuple[str, Path]], list[Absent]]:
    """Each chip under a name of its own."""
    named, absent = [], []
    for folder in within(root / _FOLDER, "hwmon.*"):
        # Until Linux 3.15 the files lay in the device's folder.
        inner = folder if any(_files(folder)) else folder / "device"
        name = hint(folder / "name") or hint(inner / "name") or _device(folder)
        if name == "ina3221":
            absent.append(Absent(METER, f"{folder.name} ({name}): read as rails of a Jetson"))
        elif hint(folder / "device" / "type") == "Battery":
            absent.append(Absent(METER, f"{folder.name} ({name}): read as a battery"))
        else:
            named.append((plain(name), inner))
    alike = Counter(name for name, _ in named)
    seen: Counter[str] = Counter()
    chips = []
    for name, folder in named:
        seen[name] += 1
        chips.append((f"{name}_{seen[name]}" if alike[name] > 1 else name, folder))
    return chips, absent


def _device(folder: Path) -> str:
    """The folder of the device, for a chip that does not give its name."""
    parents = folder.resolve().parents
    name = parents[1].name if parents[0].name == "hwmon" else parents[0].name
    return folder.name if name in ("class", "") else name


def _files(folder: Path) -> Iterator[_File]:
    """Its readings; where a power is there twice, now and averaged, both are given."""
    for path in within(folder):
        if found := _INPUT.fullmatch(path.name):
            sort, number, last = found[1], int(found[2]), found[3]
            label = hint(folder / f"{sort}{number}_label") or f"{sort}{number}"
            if last == "input" or sort == "power":
                yield _File(path, sort, number, last == "average", label)


def _entries(root: Path, chip: str, folder: Path) -> tuple[list[Entry], list[Absent]]:
    """What can be read of a chip, and why not the rest."""
    files = list(_files(folder))
    powered = {file.number for file in files if file.sort == "power" and not file.average}
    alike = Counter((file.sort, file.average, plain(file.label)) for file in files)
    absent, entries = [], []
    for file in files:
        if file.average and file.number in powered:
            why = f"{chip} power{file.number}_average: power{file.number}_input is the same rail"
            absent.append(Absent(METER, why))
            continue
        label = plain(file.label)
        if alike[file.sort, file.average, label] > 1:
            label = f"{label}_{file.number}"
        signal = _signal(chip, label, file)
        entries.append(single(root, file.path, signal, _SORTS[file.sort][1]))
    good, refused = sifted(METER, entries)
    return good, [*absent, *refused]


def _pairs(entries: list[Entry]) -> list[tuple[Entry, Entry]]:
    """A current and a voltage that the chip gives the same label, and no power: their product is
    the power of that rail. Numbers alone mean nothing."""
    known = {one.signals[0].quantity: one for one in entries}
    pairs = []
    for name, current in known.items():
        rail = name.removesuffix("_current_a")
        voltage = known.get(f"{rail}_voltage_v")
        if rail != name and voltage is not None and f"{rail}_power_w" not in known:
            pairs.append((current, voltage))
    return pairs


def _signal(chip: str, label: str, file: _File) -> Signal:
    what, _, kind, every_ns = _SORTS[file.sort]
    known = (name for name in PARTS if chip == name or chip.startswith(f"{name}_"))
    part = PARTS.get(next(known, ""), chip)
    span_ns = 0
    if file.average:
        kind = "window"
        millis = once(file.path.with_name(f"power{file.number}_average_interval"), count)
        span_ns = 0 if isinstance(millis, str) else round(millis * 1e6)     # 0: not told
    captured = file.sort in ("temp", "in")
    return Signal(
        METER, f"{chip}_{label}_{what}", kind, part, every_ns, span_ns,
        basis="captured" if captured else "documented",
    )  # fmt: skip

