"""Files that hold one number each: opened once, read again and again, brought to our units."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from handtorch.meters.file import KeptFile, said
from handtorch.meters.signal import Absent, Signal, Value

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)
MOST_SHOWN = 40                     # characters of a text that is not what it should be


def number(text: str) -> Value:
    """The number that is all of `text`, or why there is none."""
    text = text.strip()
    if not text:
        return "it is empty"
    if _NUMBER.fullmatch(text) is None or not math.isfinite(float(text)):
        return f"not a number: {text[:MOST_SHOWN]!r}"
    return float(text)


def read_number(file: KeptFile) -> Value:
    """What the file holds now, as the kernel gives it; or why not."""
    try:
        return number(file.text())
    except OSError as error:
        return said(error)


def word(path: Path) -> str | None:
    """The text of a small file without the spaces around it; None where it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def once(path: Path) -> Value:
    """What a file holds that is read one single time; or why not."""
    try:
        file = KeptFile(path)
    except OSError as error:
        return said(error)
    try:
        return read_number(file)
    finally:
        file.close()


def folders(folder: Path, pattern: str = "*") -> list[Path]:
    """The folders of that name in order, hwmon2 before hwmon10; none where none can be seen."""
    try:
        found = [path for path in folder.glob(pattern) if os.path.isdir(path)]
    except OSError:
        return []
    return sorted(found, key=lambda path: [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"([0-9]+)", path.name)
    ])  # fmt: skip


def lacking(root: Path, folder: Path, what: str) -> str:
    """Why nothing was found in a folder: it is not there, or hidden from us, or holds none."""
    try:
        os.scandir(root / folder).close()
    except FileNotFoundError:
        return f"there is no /{folder}"
    except OSError as error:
        return f"/{folder}: {said(error)}"
    return f"/{folder} has no {what}"


def on_machine(root: Path, path: Path) -> str:
    """The path as the machine itself calls it."""
    return f"/{path.relative_to(root).as_posix()}"


def plain(name: str) -> str:
    """A label as part of a quantity: lower case, words joined by `_`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"


@dataclass(frozen=True, slots=True)
class ScaledFile:
    """One signal and its file; the signal's value is the file's number over `per`."""

    signal: Signal
    file: KeptFile
    per: float

    def value(self) -> Value:
        found = read_number(self.file)
        return found if isinstance(found, str) else found / self.per


class ScaledFiles:
    """A sensor of such files."""

    def __init__(self, files: Iterable[ScaledFile], waits: bool = False) -> None:
        self._files = tuple(files)
        self.signals = tuple(file.signal for file in self._files)
        self.waits = waits

    def read(self) -> tuple[Value, ...]:
        return tuple(file.value() for file in self._files)

    def close(self) -> None:
        for file in self._files:
            file.file.close()


def open_scaled(
    root: Path, signal: Signal, path: Path, per: float, fix: str = ""
) -> ScaledFile | Absent:
    """The file, once it was really read: one that opens and gives nothing is absent, with why."""
    where = on_machine(root, path)
    try:
        file = KeptFile(path)
    except OSError as error:
        return Absent(signal.meter, f"{where}: {said(error)}", _fix(error, where, fix))
    try:
        found = number(file.text())
        if not isinstance(found, str):
            return ScaledFile(replace(signal, where=where), file, per)
        absent = Absent(signal.meter, f"{where}: {found}")
    except OSError as error:
        absent = Absent(signal.meter, f"{where}: {said(error)}", _fix(error, where, fix))
    file.close()
    return absent


def _fix(error: OSError, where: str, fix: str) -> str:
    if not isinstance(error, PermissionError):
        return ""
    return fix or f"run as root, or: sudo chmod a+r {where}"


def parted(
    opened: Iterable[ScaledFile | Absent],
) -> tuple[tuple[ScaledFile, ...], tuple[Absent, ...]]:
    """Those that can be read, and those that cannot."""
    every = tuple(opened)
    return (
        tuple(one for one in every if isinstance(one, ScaledFile)),
        tuple(one for one in every if isinstance(one, Absent)),
    )
