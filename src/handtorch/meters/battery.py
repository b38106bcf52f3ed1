"""What a battery gives: /sys/class/power_supply, on laptops and phones.

Documentation/ABI/testing/sysfs-class-power has the files: uV, uA, uW, uWh, uAh, tenths of a degree.
Phones differ: some give mA or mV, some a positive current while discharging. Only a battery that
nothing charges tells what the machine uses; at any other time its power is a reason instead."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from handtorch.meters.file import KeptFile, called, hint, said, within
from handtorch.meters.parse import number, plain
from handtorch.meters.reading import lacking, taken, unread
from handtorch.meters.signal import SLOW_NS, Absent, Basis, Found, Kind, Signal, Value

METER = "battery"
_FOLDER = Path("sys/class/power_supply")
FIX = "unplug the machine while it is measured"
# Fuel gauges bring their values up to date every 0.25 s to 10 s, and asking costs power.
SPAN_NS = SLOW_NS
# As uA this is 15 mA, less than anything draws that runs Python; as mA it is 15 A, more than a
# phone can. So a smaller number is mA.
_LEAST_UA = 15_000
_LEAST_UV = 100_000                 # likewise: no battery has 0.1 V, and none 100 V
_CHARGES = ("charge_counter", "charge_now")
_FILES = ("status", "power_now", "current_now", "voltage_now", "energy_now", *_CHARGES, "temp",
          "capacity")  # fmt: skip


class Battery:
    """One battery, and whether anything outside gives power. The bus to the gauge may wait."""

    waits = True

    def __init__(
        self, where: str, files: Mapping[str, KeptFile], outside: Mapping[str, KeptFile]
    ) -> None:
        """`where` is the battery's folder, as the machine calls it."""
        self._files, self._outside = dict(files), dict(outside)
        self._largest_current = 0.0
        self._drawn_j = 0.0
        self._before: tuple[float, float] | None = None     # uWh or uAh, and V
        self._kinds = _kinds(files)
        self.signals = tuple(
            Signal(METER, f"{plain(Path(where).name)}_{what}", kind, "machine", SLOW_NS, SPAN_NS,
                   basis=basis, where=f"{where}/{file}")
            for what, (kind, basis, file) in self._kinds.items()
        )  # fmt: skip

    def read(self) -> tuple[Value, ...]:
        charged = self.charged()
        volts = self._volts() if "voltage_now" in self._files else "no voltage_now"
        values: dict[str, Value] = {"voltage_v": volts}
        if "power_w" in self._kinds:
            power = self._power(volts)
            values["power_w"] = charged or power
        if "drawn_energy_j" in self._kinds:
            drawn = self._drawn(volts, charged)
            values["drawn_energy_j"] = charged or drawn
        for what, file, per in (("temp_c", "temp", 10), ("charge_ratio", "capacity", 100)):
            if what in self._kinds:
                found = taken(self._files[file], number)
                values[what] = found if isinstance(found, str) else found / per
        return tuple(values[what] for what in self._kinds)

    def charged(self) -> str:
        """Why its power is not what the machine uses; empty when it is."""
        for name, file in self._outside.items():
            if taken(file, number) == 1:
                return f"{name} gives power: the battery's is not what the machine uses"
        if "status" not in self._files:
            return "no status: it may be charging"
        try:
            status = self._files["status"].text().strip()
        except OSError as error:
            return f"its status: {said(error)}"
        if status == "Discharging":
            return ""
        return f"its status is {status!r}: its power is not what the machine uses"

    @property
    def in_milliamperes(self) -> bool | None:
        """Decided by the largest current seen; None before there was any."""
        return self._largest_current < _LEAST_UA if self._largest_current > 0 else None

    def _volts(self) -> Value:
        found = taken(self._files["voltage_now"], number)
        if isinstance(found, str):
            return found
        if found <= 0:
            return f"voltage_now is {found:g}"
        return found / (1e3 if found < _LEAST_UV else 1e6)

    def _power(self, volts: Value) -> Value:
        """Without a sign: which way the current flows is known from the status."""
        if "power_now" in self._files:
            found = taken(self._files["power_now"], number)
            if isinstance(found, str) or found != 0:
                return found if isinstance(found, str) else abs(found) / 1e6
            return "power_now is 0 while it discharges"
        current = taken(self._files["current_now"], number)
        if isinstance(current, str):
            return current
        self._largest_current = max(self._largest_current, abs(current))
        if current == 0:
            return "current_now is 0 while it discharges"
        if isinstance(volts, str):
            return f"voltage: {volts}"
        return abs(current) / (1e3 if self.in_milliamperes else 1e6) * volts

    def _drawn(self, volts: Value, charged: str) -> Value:
        """The energy taken out since the first reading: over times when it was charged, none."""
        name = next(name for name in ("energy_now", *_CHARGES) if name in self._files)
        now = taken(self._files[name], number)
        if charged or isinstance(now, str):
            self._before = None
            return now
        if name == "energy_now":
            volts = 1.0
        elif isinstance(volts, str):
            self._before = None
            return f"voltage: {volts}"
        if self._before is not None:
            then, then_volts = self._before
            self._drawn_j += (then - now) * 3600e-6 * (volts + then_volts) / 2
        self._before = now, volts
        return self._drawn_j

    def close(self) -> None:
        for file in (*self._files.values(), *self._outside.values()):
            file.close()


def _kinds(files: Mapping[str, KeptFile]) -> dict[str, tuple[Kind, Basis, str]]:
    """What these files can tell: the kind of signal, and the file that says it.

    A laptop's files were taken from a machine; the phones' are as documented."""
    kinds: dict[str, tuple[Kind, Basis, str]] = {}
    if "power_now" in files:
        kinds["power_w"] = ("instant", "captured", "power_now")
    elif "current_now" in files and "voltage_now" in files:
        kinds["power_w"] = ("instant", "documented", "current_now")
    energy = next((name for name in ("energy_now", *_CHARGES) if name in files), None)
    if energy == "energy_now":
        kinds["drawn_energy_j"] = ("counter", "captured", energy)
    elif energy is not None and "voltage_now" in files:
        kinds["drawn_energy_j"] = ("counter", "documented", energy)
    if "voltage_now" in files:
        kinds["voltage_v"] = ("gauge", "captured", "voltage_now")
    if "temp" in files:
        kinds["temp_c"] = ("gauge", "documented", "temp")
    if "capacity" in files:
        kinds["charge_ratio"] = ("gauge", "captured", "capacity")
    return kinds


def find(root: Path) -> Found:
    """Every battery of the machine itself; what is said of it now, too, is in `absent`."""
    supplies = within(root / _FOLDER)
    batteries = [folder for folder in supplies if _is_battery(folder)]
    absent, sensors = [], []
    for folder in batteries:
        if hint(folder / "scope") == "Device":
            absent.append(Absent(METER, f"{folder.name}: the battery of a device that is attached"))
        elif hint(folder / "present") == "0":
            absent.append(Absent(METER, f"{folder.name}: no battery is in its place"))
        else:
            files, refused = _opened(root, folder, _FILES)
            outside: dict[str, KeptFile] = {}
            for supply in supplies:
                if supply not in batteries:
                    online, hidden = _opened(root, supply, ("online",))
                    refused += hidden
                    if online:
                        outside[supply.name] = online["online"]
            battery = Battery(called(root, folder), files, outside)
            absent += [*refused, *_said(folder.name, battery)]
            if battery.signals:
                sensors.append(battery)
            else:
                battery.close()
    if not batteries:
        return lacking(METER, root, root / _FOLDER, "battery")
    return Found(tuple(sensors), tuple(absent))


def _said(name: str, battery: Battery) -> list[Absent]:
    """What a user should know of this battery before its watts are believed."""
    names = {signal.quantity.removeprefix(f"{plain(name)}_") for signal in battery.signals}
    if "power_w" not in names:
        return [Absent(METER, f"{name}: no power_now, and no current_now with a voltage_now")]
    notes = []
    battery.read()
    if why := battery.charged():
        notes.append(Absent(METER, f"{name}: {why}", FIX))
    elif battery.in_milliamperes:
        notes.append(Absent(
            METER, f"{name}: current_now is taken as mA: as uA it would be less than "
                   f"{_LEAST_UA // 1000} mA",
        ))  # fmt: skip
    return notes


def _is_battery(folder: Path) -> bool:
    kind = hint(folder / "type")
    return kind == "Battery" if kind else folder.name.lower().startswith("bat")


def _opened(
    root: Path, folder: Path, names: tuple[str, ...]
) -> tuple[dict[str, KeptFile], list[Absent]]:
    """The files that are there; one that is there and cannot be opened is absent, with why."""
    files: dict[str, KeptFile] = {}
    absent: list[Absent] = []
    for name in names:
        file = KeptFile(folder / name)
        try:
            file.text()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.filename is not None:      # of opening; a gauge that is busy may answer later
                absent += unread(METER, root, file.path, error).absent
                continue
        files[name] = file
    return files, absent
