"""The rails of a Jetson: INA3221 chips, three channels each, in two generations of drivers.

JetPack 4 and older, `ina3221x`: <bus>-<address>/iio:deviceK (on TX1 iio_device) with rail_name_N
and in_powerN_input (mW), N from 0; NVIDIA's Jetson Developer Guide 32.6.1. JetPack 5 and newer,
`ina3221`: <bus>-<address>/hwmon/hwmonK with inN_label, inN_input (mV) and currN_input (mA), N from
1; Documentation/hwmon/ina3221.rst. There in4 to in6 are shunt voltages, in7 and curr4 sums."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from handtorch.meters.file import KeptFile, called, hint, there, within
from handtorch.meters.parse import count, number, plain
from handtorch.meters.rails import NOT_CONNECTED, Board, board_of
from handtorch.meters.reading import (
    FileSensor,
    lacking,
    once,
    sifted,
    single,
    taken,
    usable,
)
from handtorch.meters.signal import (
    FAST_NS,
    MEDIUM_NS,
    SLOW_NS,
    Absent,
    Found,
    Sensor,
    Signal,
    Value,
)

METER = "ina3221"
SHUNT_STEP_V = 40e-6                # one step of the chip's converter
VOLTAGE_NS = SLOW_NS                # the voltage of a rail hardly moves: it is read once a second
_DRIVERS = Path("sys/bus/i2c/drivers")
_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Channel:
    folder: Path
    number: int
    label: str
    iio: bool

    @property
    def power(self) -> Path:
        return self.folder / f"in_power{self.number}_input"

    @property
    def current(self) -> Path:
        return self.folder / f"curr{self.number}_input"

    @property
    def voltage(self) -> Path:
        name = "in_voltage" if self.iio else "in"
        return self.folder / f"{name}{self.number}_input"

    @property
    def files(self) -> tuple[Path, ...]:
        """All that its power is made of."""
        return (self.power,) if self.iio else (self.current, self.voltage)


class Rails:
    """Rails of one chip whose power is voltage times current, from files in mV and mA.

    A read of this family's chip waits for the next conversion, so the currents are read each time
    and the voltages only when they are a second old. The rails are read one after another."""

    waits = True

    def __init__(
        self,
        rails: Sequence[tuple[Signal, KeptFile, KeptFile]],
        voltage_ns: int = VOLTAGE_NS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.signals = tuple(signal for signal, _, _ in rails)
        self._files = tuple((current, voltage) for _, current, voltage in rails)
        self._voltage_ns, self._clock = voltage_ns, clock
        self._voltages: list[Value] = []
        self._read_ns = 0

    def read(self) -> tuple[Value, ...]:
        now_ns = self._clock()
        known = self._voltages and not any(isinstance(mv, str) for mv in self._voltages)
        if not known or now_ns - self._read_ns >= self._voltage_ns:
            self._voltages = [taken(voltage, number) for _, voltage in self._files]
            self._read_ns = now_ns
        both = zip(self._files, self._voltages, strict=True)
        return tuple(_watts(taken(current, number), mv) for (current, _), mv in both)

    def close(self) -> None:
        for files in self._files:
            for file in files:
                file.close()


def _watts(milliamperes: Value, millivolts: Value) -> Value:
    if isinstance(milliamperes, str):
        return f"current: {milliamperes}"
    if isinstance(millivolts, str):
        return f"voltage: {millivolts}"
    return milliamperes * millivolts / 1e6


def chips(root: Path) -> list[Path]:
    """The folders in which channels lie, of either driver."""
    old = within(root / _DRIVERS / "ina3221x", ".*-.*")
    new = within(root / _DRIVERS / "ina3221", ".*-.*")
    return [
        *(folder for chip in old for folder in within(chip, "iio[:_]device.*")),
        *(folder for chip in new for folder in within(chip / "hwmon", "hwmon.*")),
    ]


def find(root: Path) -> Found:
    """One sensor for each chip; rails know their parent where the board is one we know."""
    folders = chips(root)
    if not folders:
        return lacking(METER, root, root / _DRIVERS, "chip of ina3221 or ina3221x")
    channels, absent = _channels(root, folders)
    board = board_of([channel.label for channel in channels])
    if channels and board is None:
        names = ", ".join(channel.label for channel in channels)
        why = f"{names}: no board we know has these rails; none is taken for a part of another"
        absent.append(Absent(METER, why))
    answering = {channel.label for channel in channels
                 if all(usable(path, number) for path in channel.files)}  # fmt: skip
    sensors: list[Sensor] = []
    for folder in folders:
        own = [channel for channel in channels if channel.folder == folder]
        sensor, refused = _open(root, own, answering, board) if own else (None, [])
        absent += refused
        if sensor is not None:
            sensors.append(sensor)
    return Found(tuple(sensors), tuple(absent))


def _channels(root: Path, folders: list[Path]) -> tuple[list[_Channel], list[Absent]]:
    channels: list[_Channel] = []
    absent: list[Absent] = []
    for folder in folders:
        iio = folder.name.startswith("iio")
        found = []
        for n in range(3) if iio else range(1, 4):
            label = hint(folder / (f"rail_name_{n}" if iio else f"in{n}_label"))
            channel = _Channel(folder, n, label or f"{_chip(folder)}_{n}", iio)
            if not there(channel.files[0]):
                continue
            if label == NOT_CONNECTED:
                absent.append(Absent(METER, f"{_chip(folder)} channel {n}: not connected"))
            elif hint(folder / f"in{n}_enable") == "0":
                absent.append(Absent(METER, f"{_chip(folder)} {label}: switched off"))
            else:
                found.append(channel)
        if not found:
            absent.append(Absent(METER, f"{called(root, folder)}: no channel can be read"))
        channels += found
    # A name that two chips have would mean two different rails.
    alike = Counter(plain(channel.label) for channel in channels)
    return [
        channel if alike[plain(channel.label)] == 1
        else replace(channel, label=f"{channel.label}_{_chip(channel.folder)}_{channel.number}")
        for channel in channels
    ], absent  # fmt: skip


def _chip(folder: Path) -> str:
    """The bus and address of its chip: 1-0041."""
    return next(p.name for p in folder.parents if p.parent.name.startswith("ina3221"))


def _open(
    root: Path, own: list[_Channel], answering: set[str], board: Board | None
) -> tuple[Sensor | None, list[Absent]]:
    """The sensor of one chip, or none; and what of it cannot be read."""
    signals = [_signal(channel, answering, board) for channel in own]
    notes: list[Absent] = []
    if not own[0].iio:
        signals, notes = _timed(signals, own[0].folder)
    good, absent = sifted(METER, [
        single(root, path, signal, lambda text: number(text) / 1e3)
        for signal, channel in zip(signals, own, strict=True) for path in channel.files
    ])  # fmt: skip
    notes += absent
    if own[0].iio:
        return (FileSensor(good, waits=True) if good else None), notes
    kept = {entry.path: entry.signals[0] for entry in good}
    rails = [
        (kept[channel.current], KeptFile(channel.current), KeptFile(channel.voltage))
        for channel in own if kept.keys() >= set(channel.files)
    ]  # fmt: skip
    return (Rails(rails) if rails else None), notes


def _signal(channel: _Channel, answering: set[str], board: Board | None) -> Signal:
    """A parent is one of the rails that can be read."""
    rail = board.rail(channel.label) if board else None
    parent = rail.parent if rail and rail.parent in answering else ""
    shunt_uohm = once(channel.folder / f"shunt{channel.number}_resistor", count)
    shunt_ohm = rail.shunt_ohm if rail else None
    if not isinstance(shunt_uohm, str) and shunt_uohm > 0:
        shunt_ohm = shunt_uohm / 1e6
    millivolts = once(channel.voltage, number)
    step = 0.0
    if shunt_ohm is not None and not isinstance(millivolts, str):
        step = SHUNT_STEP_V / shunt_ohm * millivolts / 1e3
    return Signal(
        METER,
        quantity(channel.label),
        "instant",
        rail.part if rail else plain(channel.label),
        FAST_NS,
        parent=quantity(parent) if parent else "",
        step=step,
        basis="documented",
    )


def _timed(signals: list[Signal], folder: Path) -> tuple[list[Signal], list[Absent]]:
    """The signals with the chip's own timing.

    update_interval is channels x samples x (bus + shunt conversion). With more than one sample the
    chip keeps a running mean, new = old + (reading - old) / samples, brought up to date every
    interval / samples: its time constant is the interval."""
    interval, samples = (once(folder / name, count) for name in ("update_interval", "samples"))
    if isinstance(interval, str):
        return signals, [Absent(METER, f"{_chip(folder)} update_interval: {interval}")]
    many = not isinstance(samples, str) and samples > 1
    span_ns = round(interval * _MS)
    sweep_ns = span_ns * len(signals)
    every_ns = FAST_NS if sweep_ns <= 50 * _MS else MEDIUM_NS if sweep_ns <= 500 * _MS else SLOW_NS
    notes = []
    if sweep_ns > FAST_NS:
        notes.append(Absent(
            METER,
            f"{_chip(folder)}: one reading of its {len(signals)} rails waits up to "
            f"{sweep_ns / _MS:g} ms for the chip; the rails are not read at one moment",
            f"as root: echo 1 > samples; echo 0 > update_interval, in {folder.name} of the chip",
        ))  # fmt: skip
    return [
        replace(s, kind="lowpass" if many else "instant", span_ns=span_ns, every_ns=every_ns)
        for s in signals
    ], notes


def quantity(label: str) -> str:
    """The quantity of a rail's power."""
    return f"{plain(label)}_power_w"
