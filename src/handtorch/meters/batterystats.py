"""The battery history in `dumpsys batterystats` of an Android phone, read from a saved text.

A line gives the time since the history began, the charge in per cent, and what changed:
`+1m17s651ms (2) 080 volt=8174 temp=322 -wifi_radio`. `charge=` (mAh, from Android 8 on) is in
HistoryPrinter of frameworks/base BatteryStats.java; the rest is in text that phones wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from handtorch.meters.log import Refused, lines
from handtorch.meters.parse import number, shown


@dataclass(frozen=True)
class Point:
    """The phone from this moment on; None is what no line has told so far."""

    line: int
    time_s: float                   # since the history began
    charge_ratio: float
    voltage_v: float | None
    temp_c: float | None
    plug: str | None                # "none", "usb", "ac", "wireless"
    status: str | None              # "discharging", "charging", "full"
    charge_mah: float | None        # what the coulomb counter holds
    events: tuple[str, ...]         # "+screen", "-wifi_radio" ...

    @property
    def on_battery(self) -> bool | None:
        """Only then does a falling charge tell what the phone uses."""
        if self.plug is None or self.status is None:
            return None
        return self.plug == "none" and self.status == "discharging"


@dataclass(frozen=True)
class History:
    """`began` is the phone's own clock when the history began, as it wrote it.

    Every line that holds anything is a point, or one of `notes` (the clock, the heading, the use of
    the processor), or refused."""

    began: str
    capacity_mah: float | None      # of the whole battery, from the statistics below the history
    points: tuple[Point, ...]
    notes: tuple[int, ...]
    refused: tuple[Refused, ...]


def read_log(path: Path) -> History:
    """Raises StorageError for a file that cannot be read."""
    reader = _Reader()
    for line, text in lines(path):
        if text.strip():
            reader.take(line, text)
    return History(reader.began, reader.capacity_mah, tuple(reader.points), tuple(reader.notes),
                   tuple(reader.refused))  # fmt: skip


_LINE = re.compile(r"\s*(?P<time>0|\+\S+) \((?P<count>\d{1,9})\) (?P<rest>\S.*)", re.ASCII)
_UNITS = ("d", "h", "m(?!s)", "s", "ms")
_TIME = re.compile(r"\+" + "".join(rf"(?:(\d{{1,9}}){unit})?" for unit in _UNITS), re.ASCII)
_WORDS = re.compile(r'(?:[^\s"]|"[^"]*"|")+')
_CAPACITY = re.compile(r"Capacity: (\d{1,6})(?:\.\d+)?,", re.ASCII)
_NUMBERS = {"volt": 1e3, "temp": 10.0, "charge": 1.0}
_CLOCKS = ("RESET:TIME:", "TIME:")


def seconds(text: str) -> float | None:
    """`+1h02m03s004ms` in seconds; None for anything else."""
    if text == "0":
        return 0.0
    found = _TIME.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, whole, millis = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + whole + millis / 1e3


class _Reader:
    """Keeps what the lines so far have told: each names only what changed."""

    def __init__(self) -> None:
        self.began = ""
        self.capacity_mah: float | None = None
        self.points: list[Point] = []
        self.notes: list[int] = []
        self.refused: list[Refused] = []
        self._numbers: dict[str, float | None] = dict.fromkeys(_NUMBERS)
        self._words: dict[str, str | None] = {"plug": None, "status": None}
        self._section = "before"

    def take(self, line: int, text: str) -> None:
        if text.startswith("Battery History"):
            self._section = "history"
            self.notes.append(line)
        elif text.startswith("Statistics since"):
            self._section = "statistics"
            self._refuse(line, "statistics, not history")
        elif self._section == "statistics":
            if found := _CAPACITY.search(text):
                self.capacity_mah = float(found[1])
                self.notes.append(line)
            else:
                self._refuse(line, "statistics, not history")
        elif text.strip().startswith(("Details:", "/proc/stat=")):
            self.notes.append(line)           # the processor's use, between two changes of charge
        elif found := _LINE.fullmatch(text):
            self._line(line, found)
        else:
            self._refuse(line, f"not a line of the history: {shown(text)}")

    def _refuse(self, line: int, why: str) -> None:
        self.refused.append(Refused(line, why))

    def _line(self, line: int, found: re.Match[str]) -> None:
        time_s, rest = seconds(found["time"]), found["rest"].strip()
        if time_s is None:
            self._refuse(line, f"not a time: {shown(found['time'])}")
            return
        if clock := next((c for c in _CLOCKS if rest.startswith(c)), None):
            self.began = self.began or rest.removeprefix(clock).strip()
            self.notes.append(line)
            return
        level, _, changes = rest.partition(" ")
        if re.fullmatch(r"\d{3}", level, re.ASCII) is None or int(level) > 100:
            self._refuse(line, f"not a charge in per cent: {shown(level)}")
            return
        events, why = self._changes(changes)
        if why:
            self._refuse(line, why)
        self.points.append(Point(
            line, time_s, int(level) / 100, self._numbers["volt"], self._numbers["temp"],
            self._words["plug"], self._words["status"], self._numbers["charge"], events,
        ))  # fmt: skip

    def _changes(self, text: str) -> tuple[tuple[str, ...], str]:
        """The events among the words; the numbers and states are kept. And what was wrong."""
        events, wrong = [], []
        for word in _WORDS.findall(text):
            name, equals, value = word.partition("=")
            if equals and name in _NUMBERS:
                try:
                    self._numbers[name] = number(value) / _NUMBERS[name]
                except ValueError as error:
                    self._numbers[name] = None
                    wrong.append(f"{name}: {error}")
            elif equals and name in self._words:
                self._words[name] = value
            else:
                events.append(word)
        return tuple(events), "; ".join(wrong)
