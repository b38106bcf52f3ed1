"""Trepn's CSV: what Qualcomm's profiler exported from a phone.

Each value column follows a `Time  [ms]` column; columns that stand together share one. Two forms
are known: the header alone, and a head of the app and the file, then the header, the samples, and
statistics. The unit stands in the column's name: [uW], [kHz], [%], [1/10 C], [KB]."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from handtorch.meters.log import Refused, lines
from handtorch.meters.parse import decimal, plain, shown
from handtorch.meters.signal import Value

# Trepn's units: times this, over that, in ours.
UNITS = {
    "uw": (1, 1e6, "w"), "mw": (1, 1e3, "w"), "hz": (1, 1, "hz"), "khz": (1e3, 1, "hz"),
    "mhz": (1e6, 1, "hz"), "%": (1, 100, "ratio"), "1/10 c": (1, 10, "c"), "c": (1, 1, "c"),
    "kb": (1024, 1, "bytes"), "mb": (1024**2, 1, "bytes"), "uv": (1, 1e6, "v"), "mv": (1, 1e3, "v"),
    "ua": (1, 1e6, "a"), "ma": (1, 1e3, "a"),
}  # fmt: skip
_NO_UNIT = (1, 1, "count")
DISCHARGING = 3                     # of Android's BatteryManager; all others have a plug in them
_CUT = "the line ends before it"
_STATUS = "battery_status_count"
_TIME = re.compile(r"Time\s*\[ms\]")
_COLUMN = re.compile(r"(?P<name>[^\[]*?)\*?\s*(?:\[(?P<unit>[^\]]*)\])?\s*(?:\((?P<form>\w+)\))?")


@dataclass(frozen=True)
class Column:
    """One quantity, in our units; times count from the beginning of the recording.

    A frequency of 0 is how Trepn writes a core that is off."""

    quantity: str                   # "battery_power_raw_w", "cpu1_load_ratio"
    times: float
    over: float
    time_s: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Log:
    """Every line that holds anything is one of `samples`, or of `notes` (the head, the averages),
    or refused; a line may give some of its values and be refused for the others."""

    columns: tuple[Column, ...]
    averages: dict[str, float]      # Trepn's own, by its names and in its units
    samples: tuple[int, ...]
    notes: tuple[int, ...]
    refused: tuple[Refused, ...]

    def column(self, quantity: str) -> Column | None:
        return next((c for c in self.columns if c.quantity == quantity), None)


def read_log(path: Path) -> Log:
    """Raises StorageError for a file that cannot be read."""
    reader = _Reader()
    for line, text in lines(path):
        if text.strip(" ,"):
            reader.take(line, text)
    return Log(tuple(c for c in reader.columns if c is not None), reader.averages,
               tuple(reader.samples), tuple(reader.notes), tuple(reader.refused))  # fmt: skip


class _Reader:
    def __init__(self) -> None:
        self.columns: list[Column | None] = []      # None for one that is not read
        self.averages: dict[str, float] = {}
        self.samples: list[int] = []
        self.notes: list[int] = []
        self.refused: list[Refused] = []
        self._time_at: list[int] = []               # of each value column, its time column
        self._value_at: list[int] = []
        self._section = "head"

    def take(self, line: int, text: str) -> None:
        try:
            (cells,) = csv.reader([text], strict=True)
        except (csv.Error, ValueError) as error:
            self._refuse(line, f"not a line of CSV: {error}")
            return
        first = cells[0].strip()
        if self._section == "head" and _TIME.fullmatch(first):
            self._section = "samples"
            self.notes.append(line)
            self._header(line, cells)
        elif first == "System Statistics:":
            self._section = "statistics"
            self.notes.append(line)
        elif self._section == "samples":
            self._sample(line, cells)
        elif self._section == "statistics":
            self._average(line, cells)
        elif first in ("App", "System") or len(cells) == 5:
            self.notes.append(line)
        else:
            self._refuse(line, f"before the header: {shown(text)}")

    def _refuse(self, line: int, why: str) -> None:
        self.refused.append(Refused(line, why))

    def _header(self, line: int, cells: list[str]) -> None:
        time_at = 0
        for at, cell in enumerate(cells):
            if _TIME.fullmatch(cell.strip()):
                time_at = at
            elif cell.strip():
                column = _column(cell.strip())
                if isinstance(column, str):
                    self._refuse(line, column)
                self.columns.append(None if isinstance(column, str) else column)
                self._time_at.append(time_at)
                self._value_at.append(at)
        if not any(column and column.quantity == _STATUS for column in self.columns):
            self._refuse(line, "no Battery Status: whether the phone was plugged in is not known")

    def _sample(self, line: int, cells: list[str]) -> None:
        """Takes what the line holds; a battery that is charged has no power to speak of."""
        wrong, found = [], []
        for column, time_at, at in zip(self.columns, self._time_at, self._value_at, strict=True):
            if column is None:
                continue
            time_ms, value = (_number(cells, n) for n in (time_at, at))
            if isinstance(time_ms, str):
                wrong.append(f"{column.quantity}: its time: {time_ms}")
            elif isinstance(value, str):
                wrong.append(f"{column.quantity}: {value}")
            else:
                found.append((column, time_ms, value))
        charged = any(c.quantity == _STATUS and value != DISCHARGING for c, _, value in found)
        for column, time_ms, value in found:
            if charged and column.quantity.startswith("battery_power"):
                wrong.append(f"{column.quantity}: the battery was not discharging")
            else:
                column.time_s.append(time_ms / 1e3)
                column.value.append(value * column.times / column.over)
        self.samples.append(line)
        if wrong:
            self._refuse(line, "; ".join(wrong))

    def _average(self, line: int, cells: list[str]) -> None:
        value = _number(cells, 3) if len(cells) == 4 else "not four columns"
        if cells[0].strip() == "Sensor Id":
            self.notes.append(line)
        elif isinstance(value, str):
            self._refuse(line, f"statistics: {value}")
        else:
            self.averages[cells[1].strip()] = value
            self.notes.append(line)


def _number(cells: list[str], at: int) -> Value:
    try:
        return decimal(cells[at]) if at < len(cells) else _CUT
    except ValueError as error:
        return str(error)


def _column(name: str) -> Column | str:
    """The column of that heading, or why it is not read."""
    found = _COLUMN.fullmatch(name)
    if found is None or not found["name"].strip():
        return f"not the name of a column: {shown(name)}"
    unit = found["unit"]
    if unit is not None and unit.strip().lower() not in UNITS:
        return f"{found['name'].strip()}: the unit {shown(unit)} is not known"
    times, over, ours = UNITS[unit.strip().lower()] if unit is not None else _NO_UNIT
    return Column(plain(f"{found['name']} {found['form'] or ''} {ours}"), times, over)
