"""tegrastats: one line of text for each interval, in a form that changed with every JetPack.

A second choice: its times are whole seconds or none, so a live line is stamped when it arrives.
NVIDIA's Jetson Developer Guide, "tegrastats Utility", has the fields; power is in mW."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from handtorch.meters import ina3221
from handtorch.meters.file import called, said
from handtorch.meters.log import Refused, lines
from handtorch.meters.parse import plain, shown
from handtorch.meters.rails import NOT_CONNECTED, board_of
from handtorch.meters.reading import nothing
from handtorch.meters.signal import (
    FAST_NS,
    MEDIUM_NS,
    SLOW_NS,
    Absent,
    Found,
    Kind,
    Signal,
    Value,
)

METER = "tegrastats"
OFF_C = -256.0                      # what a part that has no power gives as its temperature
_BYTES = {"k": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Readings:
    """What one line says, in our units.

    `missing` says why a quantity has no value (a core that is off); `unknown` are the words that
    were not understood. Each rail is there twice, now and as the mean since tegrastats began; the
    third value of JetPack 7 is explained nowhere, and not read."""

    date: str                       # local time in whole seconds, or empty
    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Log:
    """A recorded file: each line is in `readings`, or in `refused`, or (with unknown words) both;
    only empty lines are in neither."""

    readings: tuple[tuple[int, Readings], ...]
    refused: tuple[Refused, ...]


def read_log(path: Path) -> Log:
    """Raises StorageError for a file that cannot be read."""
    readings, refused = [], []
    for number, text in lines(path):
        if not text.strip():
            continue
        found = parse_line(text)
        if isinstance(found, str):
            refused.append(Refused(number, found))
            continue
        readings.append((number, found))
        if found.unknown:
            refused.append(Refused(number, f"not understood: {' '.join(found.unknown)}"))
    return Log(tuple(readings), tuple(refused))


def parse_line(text: str) -> Readings | str:
    """The readings of one line, or why it is none of tegrastats."""
    date = _DATE.match(text)
    rest = text[date.end():] if date else text
    if not rest.lstrip().startswith("RAM "):
        return f"not a line of tegrastats: {shown(text)}"
    readings = Readings(date[1] if date else "")
    unknown, at = [], 0
    while at < len(rest):
        for pattern, take in _FIELDS:
            if found := pattern.match(rest, at):
                take(readings, found)
                at = found.end()
                break
        else:
            word = _WORD.match(rest, at)
            assert word is not None             # every text begins with a word or with spaces
            if word[0].strip():
                unknown.append(word[0].strip())
            at = word.end()
    return Readings(readings.date, readings.values, readings.missing, tuple(unknown))


def _memory(readings: Readings, found: re.Match[str]) -> None:
    name, unit = plain(found["name"]), _BYTES[found["unit"]]
    readings.values[f"{name}_used_bytes"] = float(found["used"]) * unit
    readings.values[f"{name}_total_bytes"] = float(found["total"]) * unit


def _cores(readings: Readings, found: re.Match[str]) -> None:
    """`[8%@2016,off]`, and before L4T 28.2 `[17%,13%]@408`."""
    shared = found["mhz"]
    for number, core in enumerate(found["cores"].split(",")):
        load = _CORE.fullmatch(core.strip())
        if core.strip() == "off":
            readings.missing[f"cpu{number}_load_ratio"] = "the core is off"
        elif load is None:
            readings.missing[f"cpu{number}_load_ratio"] = f"not understood: {shown(core)}"
        else:
            readings.values[f"cpu{number}_load_ratio"] = float(load[1]) / 100
            if (mhz := load[2] or shared) is not None:
                readings.values[f"cpu{number}_frequency_hz"] = float(mhz) * 1e6


def _engine(readings: Readings, found: re.Match[str]) -> None:
    """`EMC_FREQ 2%@1600`, `GR3D_FREQ 0%@[305,0]`, `NVDEC off`, `VIC_FREQ 729`, `GR3D_FREQ @0`."""
    name = plain(found["name"].removesuffix("_FREQ"))
    if found["off"]:
        readings.missing[f"{name}_load_ratio"] = "the engine is off"
    if found["load"]:
        readings.values[f"{name}_load_ratio"] = float(found["load"]) / 100
    if mhz := found["mhz"] or found["alone"]:
        readings.values[f"{name}_frequency_hz"] = float(mhz) * 1e6
    for number, each in enumerate(found["many"].split(",") if found["many"] else ()):
        readings.values[f"{name}_{number}_frequency_hz"] = float(each) * 1e6


def _mts(readings: Readings, found: re.Match[str]) -> None:
    readings.values["mts_foreground_ratio"] = float(found["fg"]) / 100
    readings.values["mts_background_ratio"] = float(found["bg"]) / 100


def _warmth(readings: Readings, found: re.Match[str]) -> None:
    name, celsius = f"{plain(found['name'])}_temp_c", float(found["c"])
    if celsius == OFF_C:
        readings.missing[name] = "the part has no power"
    else:
        readings.values[name] = celsius


def _rail(readings: Readings, found: re.Match[str]) -> None:
    name = plain(found["name"])
    if found["name"] == NOT_CONNECTED:
        readings.missing[f"{name}_power_w"] = "not connected"
        return
    readings.values[f"{name}_power_w"] = float(found["now"]) / 1e3
    readings.values[f"{name}_mean_power_w"] = float(found["mean"]) / 1e3


_END = r"(?=\s|$)"
_N = r"\d{1,12}"
_DATE = re.compile(r"\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d)\s+", re.ASCII)
_WORD = re.compile(r"\s*\S+|\s+")
_CORE = re.compile(rf"({_N})%(?:@({_N}))?", re.ASCII)
# In this order: a rail may have the name of a temperature, or of the cores ("CPU 618/618").
_FIELDS: tuple[tuple[re.Pattern[str], Callable[[Readings, re.Match[str]], None]], ...] = tuple(
    (re.compile(rf"\s*{pattern}{_END}", re.ASCII), take)
    for pattern, take in (
        (rf"(?P<name>RAM|SWAP|IRAM) (?P<used>{_N})/(?P<total>{_N})(?P<unit>[kMG])B"
         r"(?: ?\((?:lfb|cached) [^()]*\))?", _memory),
        (rf"(?:CPU|cpu) \[(?P<cores>[^\]]*)\](?:@(?P<mhz>{_N}))?", _cores),
        (rf"MTS fg (?P<fg>{_N})% bg (?P<bg>{_N})%", _mts),
        (rf"(?P<name>[A-Za-z]\w*)@(?P<c>-?{_N}(?:\.{_N})?)C(?:/\S*C)?", _warmth),
        (rf"(?P<name>[A-Z]\w*) (?P<now>{_N})(?:mW)?/(?P<mean>{_N})(?:mW)?(?:/{_N}(?:mW)?)?", _rail),
        (rf"(?P<name>[A-Z]\w*) (?:(?P<off>off)|(?P<alone>{_N})"
         rf"|(?=[@\d])(?:(?P<load>{_N})%)?(?:@\[(?P<many>{_N}(?:,{_N})*)\]|@(?P<mhz>{_N}))?)",
         _engine),
    )
)  # fmt: skip


class Stream:
    """A tegrastats that runs: each read waits for the next line to arrive, so that the line's time
    lies between the reader's stamps before and after. Lines that came between two reads are lost.
    """

    waits = True

    def __init__(self, process: subprocess.Popen[bytes], quiet_s: float) -> None:
        assert process.stdout is not None
        self.signals: tuple[Signal, ...] = ()       # known after the first line
        self._process, self._quiet_s = process, quiet_s
        self._fd, self._text = process.stdout.fileno(), b""
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def read(self) -> tuple[Value, ...]:
        found = self._more(until=0) or self.line()
        if isinstance(found, str):
            return (found,) * len(self.signals)
        return tuple(
            found.values.get(s.quantity, found.missing.get(s.quantity, "not in this line"))
            for s in self.signals
        )

    def line(self) -> Readings | str:
        """The next whole line; or why there is none."""
        self._text = self._text.rpartition(b"\n")[2]
        until = time.monotonic() + self._quiet_s
        while b"\n" not in self._text:
            if why := self._more(until):
                return why
            if time.monotonic() >= until:
                return f"tegrastats printed no line for {self._quiet_s:g} s"
        whole = self._text[:self._text.rindex(b"\n")]
        return parse_line(whole.rpartition(b"\n")[2].decode("utf-8", "replace"))

    def _more(self, until: float) -> str:
        """Take what the pipe holds, waiting for it until then; or say why there is no more."""
        if self._fd < 0:
            return "closed"
        if not self._poll.poll(max(0.0, until - time.monotonic()) * 1e3):
            return ""
        try:
            more = os.read(self._fd, _LONGEST)
        except OSError as error:
            return said(error)
        if not more:
            return f"tegrastats ended with code {self._process.wait()}"
        self._text = (self._text + more)[-_LONGEST:]
        return ""

    def close(self) -> None:
        """Afterwards the process is gone."""
        self._fd = -1
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def find(root: Path, interval_ms: int = 10) -> Found:
    """A tegrastats of its own, started now, unless the rails can be read from their chips."""
    binary = next((root / name for name in _BINARIES if os.path.isfile(root / name)), None)
    if binary is None:
        return nothing(METER, f"no /{' and no /'.join(_BINARIES)}")
    if ina3221.chips(root):
        return nothing(METER, "not started: the rails are read from their chips")
    where = called(root, binary)
    try:
        process = subprocess.Popen(
            [binary, "--interval", str(interval_ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        return nothing(METER, f"{where}: {said(error)}")
    stream = Stream(process, quiet_s=max(_QUIET_S, 3 * interval_ms / 1e3))
    first = stream.line()
    if isinstance(first, str):
        stream.close()
        return nothing(METER, f"{where}: {first}")
    stream.signals = _signals(first, interval_ms * 1_000_000, where)
    absent = []
    if not any(name.endswith("_power_w") for name in first.values):
        absent.append(Absent(METER, f"{where} prints no rails", "run as root"))
    if first.unknown:
        absent.append(Absent(METER, f"{where}: not understood: {' '.join(first.unknown)}"))
    return Found((stream,), tuple(absent))


def _signals(first: Readings, interval_ns: int, where: str) -> tuple[Signal, ...]:
    """One for each quantity of the first line but the means, which nobody can take apart."""
    rails = {name.removesuffix("_power_w").upper(): name
             for name in (*first.values, *first.missing)
             if name.endswith("_power_w") and not name.endswith(_MEAN)}  # fmt: skip
    board = board_of(list(rails))
    every_ns = next((n for n in (FAST_NS, MEDIUM_NS) if interval_ns <= n), SLOW_NS)
    signals = []
    for name in first.values:
        if name.endswith(_MEAN):
            continue
        kind: Kind = "gauge"
        part, parent, span_ns = name.split("_")[0], "", 0
        if name.endswith("_power_w"):
            kind = "instant"
            rail = board.rail(name.removesuffix("_power_w").upper()) if board else None
            if rail is not None:
                part, parent = rail.part, rails.get(rail.parent, "")
        elif name.endswith("_load_ratio"):
            kind, span_ns = "window", interval_ns
        part = _PARTS.get(part, part)
        signals.append(Signal(METER, name, kind, part, every_ns, span_ns, parent, where=where))
    return tuple(signals)


_BINARIES = ("usr/bin/tegrastats", "usr/local/bin/tegrastats")
_MEAN = "_mean_power_w"
_PARTS = {"gr3d": "gpu", "gr3d2": "gpu", "emc": "memory", "ram": "memory", "swap": "memory"}
_LONGEST = 65536
_QUIET_S = 2.0                      # it needs about a second to print its first line
