"""Any chip of /sys/class/hwmon: power, energy, current, voltage, temperature.

Documentation/hwmon/sysfs-interface.rst has the files and their units. The chips of Jetson rails
and the batteries have families of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from handtorch.meters.file import KeptFile
from handtorch.meters.scaled import (
    ScaledFile,
    folders,
    lacking,
    once,
    open_scaled,
    parted,
    plain,
    word,
)
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

METER = "hwmon"
_FOLDER = Path("sys/class/hwmon")
_INPUT = re.compile(r"(temp|in|curr|power|energy)(\d+)_(input|average)")
COLDEST_C = -200.0                  # Tegra says -256 C of a part that is switched off
# What a chip speaks of; any other speaks of itself.
PARTS = {
    "coretemp": "cpu", "k10temp": "cpu", "zenpower": "cpu", "amd_energy": "cpu",
    "fam15h_power": "cpu", "cpu_thermal": "cpu", "amdgpu": "gpu", "i915": "gpu", "xe": "gpu",
    "nouveau": "gpu", "nvme": "disk", "drivetemp": "disk", "power_meter": "machine",
    "acpi_power_meter": "machine",
}  # fmt: skip
# One file: what it is, how many of its units make one of ours, how often it is worth reading.
# Only temperatures and voltages are in trees that were taken from machines.
_SORTS: dict[str, tuple[str, float, Kind, int]] = {
    "temp": ("temp_c", 1e3, "gauge", SLOW_NS),
    "in": ("voltage_v", 1e3, "gauge", SLOW_NS),
    "curr": ("current_a", 1e3, "instant", FAST_NS),
    "power": ("power_w", 1e6, "instant", FAST_NS),
    "energy": ("energy_j", 1e6, "counter", MEDIUM_NS),
}


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    sort: str
    number: int
    average: bool
    label: str


@dataclass(frozen=True, slots=True)
class _Warmth:
    """A temperature; what no running machine can have is a sensor that is switched off."""

    one: ScaledFile

    def value(self) -> Value:
        found = self.one.value()
        if not isinstance(found, str) and found < COLDEST_C:
            return f"switched off: it says {found:g} C"
        return found


@dataclass(frozen=True, slots=True)
class _Product:
    """The power of a rail that has a current and a voltage of one label, and no power."""

    current: ScaledFile
    voltage: ScaledFile

    def value(self) -> Value:
        amperes, volts = self.current.value(), self.voltage.value()
        if isinstance(amperes, str):
            return f"current: {amperes}"
        return f"voltage: {volts}" if isinstance(volts, str) else amperes * volts


class Chip:
    """Signals that are worth reading equally often. A read may wait for a bus: own thread."""

    waits = True

    def __init__(
        self,
        signals: Iterable[Signal],
        values: Iterable[Callable[[], Value]],
        files: Iterable[KeptFile],
    ) -> None:
        self.signals = tuple(signals)
        self._values, self._files = tuple(values), tuple(files)

    def read(self) -> tuple[Value, ...]:
        return tuple(value() for value in self._values)

    def close(self) -> None:
        for file in self._files:
            file.close()


def find(root: Path) -> Found:
    """For each chip a sensor of what moves fast; one of all temperatures and lone voltages."""
    chips, absent = _chips(root)
    sensors: list[Sensor] = []
    slow: list[ScaledFile] = []
    for name, folder in chips:
        fast, pairs, refused = _open(root, name, folder)
        absent += refused
        for every_ns in (FAST_NS, MEDIUM_NS):
            own = [one for one in fast if one.signal.every_ns == every_ns]
            products = pairs if every_ns == FAST_NS else []
            if own or products:
                sensors.append(_fast(own, products))
        slow += [one for one in fast if one.signal.every_ns == SLOW_NS]
    if slow:
        values = [_Warmth(one).value if one.signal.quantity.endswith("_temp_c") else one.value
                  for one in slow]  # fmt: skip
        sensors.append(Chip([one.signal for one in slow], values, [one.file for one in slow]))
    if not sensors and not absent:
        absent.append(Absent(METER, lacking(root, _FOLDER, "chip with a sensor")))
    return Found(tuple(sensors), tuple(absent))


def _fast(own: list[ScaledFile], pairs: list[_Product]) -> Chip:
    return Chip(
        [*(one.signal for one in own), *(_rail(pair) for pair in pairs)],
        [*(one.value for one in own), *(pair.value for pair in pairs)],
        [*(one.file for one in own), *(f.file for p in pairs for f in (p.current, p.voltage))],
    )


def _rail(pair: _Product) -> Signal:
    quantity = pair.current.signal.quantity.removesuffix("_current_a") + "_power_w"
    return replace(pair.current.signal, quantity=quantity)


def _chips(root: Path) -> tuple[list[tuple[str, Path]], list[Absent]]:
    """Each chip under a name of its own."""
    named, absent = [], []
    for folder in folders(root / _FOLDER, "hwmon*"):
        # Until Linux 3.15 the files lay in the device's folder.
        inner = folder if any(_files(folder)) else folder / "device"
        name = word(folder / "name") or word(inner / "name") or _device(folder)
        if name == "ina3221":
            absent.append(Absent(METER, f"{folder.name} ({name}): read as rails of a Jetson"))
        elif word(folder / "device" / "type") == "Battery":
            absent.append(Absent(METER, f"{folder.name} ({name}): read as a battery"))
        else:
            named.append((plain(name), inner))
    count = Counter(name for name, _ in named)
    seen: Counter[str] = Counter()
    chips = []
    for name, folder in named:
        seen[name] += 1
        chips.append((f"{name}_{seen[name]}" if count[name] > 1 else name, folder))
    return chips, absent


def _device(folder: Path) -> str:
    """The folder of the device, for a chip that does not give its name."""
    parents = folder.resolve().parents
    name = parents[1].name if parents[0].name == "hwmon" else parents[0].name
    return folder.name if name in ("class", "") else name


def _files(folder: Path) -> Iterator[_File]:
    """Its readings; where a power is there twice, now and averaged, both are given."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        if found := _INPUT.fullmatch(path.name):
            sort, number, last = found[1], int(found[2]), found[3]
            label = word(folder / f"{sort}{number}_label") or f"{sort}{number}"
            if last == "input" or sort == "power":
                yield _File(path, sort, number, last == "average", label)


def _open(
    root: Path, chip: str, folder: Path
) -> tuple[list[ScaledFile], list[_Product], list[Absent]]:
    files = list(_files(folder))
    powered = {file.number for file in files if file.sort == "power" and not file.average}
    absent = []
    opened = []
    count = Counter((file.sort, file.average, plain(file.label)) for file in files)
    for file in files:
        if file.average and file.number in powered:
            why = f"{chip} power{file.number}_average: power{file.number}_input is the same rail"
            absent.append(Absent(METER, why))
            continue
        label = plain(file.label)
        if count[file.sort, file.average, label] > 1:
            label = f"{label}_{file.number}"
        signal, per = _signal(chip, label, file), _SORTS[file.sort][1]
        opened.append(open_scaled(root, signal, file.path, per))
    there, refused = parted(opened)
    pairs = _pairs(there)
    used = {one.signal.quantity for pair in pairs for one in (pair.current, pair.voltage)}
    rest = [one for one in there if one.signal.quantity not in used]
    return rest, pairs, [*absent, *refused]


def _pairs(files: tuple[ScaledFile, ...]) -> list[_Product]:
    """A current and a voltage that the chip gives the same label; numbers alone mean nothing."""
    known = {one.signal.quantity: one for one in files}
    pairs = []
    for name, current in known.items():
        rail = name.removesuffix("_current_a")
        voltage = known.get(f"{rail}_voltage_v")
        if rail != name and voltage is not None and f"{rail}_power_w" not in known:
            pairs.append(_Product(current, voltage))
    return pairs


def _signal(chip: str, label: str, file: _File) -> Signal:
    what, _, kind, every_ns = _SORTS[file.sort]
    known = (name for name in PARTS if chip == name or chip.startswith(f"{name}_"))
    part = PARTS.get(next(known, ""), chip)
    span_ns = 0
    if file.average:
        kind = "window"
        millis = once(file.path.with_name(f"power{file.number}_average_interval"))
        span_ns = 0 if isinstance(millis, str) else round(millis * 1e6)     # 0: not told
    captured = file.sort in ("temp", "in")
    return Signal(
        METER, f"{chip}_{label}_{what}", kind, part, every_ns, span_ns,
        basis="captured" if captured else "documented",
    )  # fmt: skip

