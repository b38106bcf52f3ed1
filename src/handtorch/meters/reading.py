"""What every family of file sensors needs: numbers taken from text with care, a sensor made of
files, and a search that says of each file why it is not read."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from handtorch.meters.file import KeptFile, said
from handtorch.meters.signal import Absent, Found, Signal, Value

T = TypeVar("T")
# One value for each signal of the file. Raises ValueError, with the reason, when the form of the
# file is not the known one; a state ("powered off") is a value like others: text.
Parse = Callable[[str], Sequence[Value]]

# Said by hardware that is asleep or has nothing new: it may answer at the next reading.
_PASSING = {errno.EAGAIN, errno.EBUSY, errno.ENODATA}
_DENIED = {errno.EACCES, errno.EPERM}
_WHOLE = re.compile(r"-?[0-9]{1,20}")       # 20 digits hold every 64-bit number


@dataclass(frozen=True, slots=True)
class Entry:
    """One file and the signals that are in it."""

    path: Path
    signals: tuple[Signal, ...]
    parse: Parse


class FileSensor:
    """Reads its files in turn; each is opened at its first reading and then kept open.

    A file that failed is opened anew at the next reading: those of a core that went offline come
    back as new files."""

    def __init__(self, entries: Iterable[Entry], *, waits: bool = False) -> None:
        self.entries = tuple(entries)
        self.signals = tuple(signal for entry in self.entries for signal in entry.signals)
        self.waits = waits
        self._files: list[KeptFile | None] = [None] * len(self.entries)

    def read(self) -> list[Value]:
        values: list[Value] = []
        for at, entry in enumerate(self.entries):
            try:
                file = self._files[at]
                if file is None:
                    file = self._files[at] = KeptFile(entry.path)
                got = entry.parse(file.text())
                assert len(got) == len(entry.signals), f"{entry.path}: {len(got)} values"
                values += got
            except OSError as error:
                self._drop(at)
                values += [said(error)] * len(entry.signals)
            except ValueError as error:
                values += [str(error)] * len(entry.signals)
        return values

    def close(self) -> None:
        for at in range(len(self._files)):
            self._drop(at)

    def _drop(self, at: int) -> None:
        file, self._files[at] = self._files[at], None
        if file is not None:
            file.close()


def gather(meter: str, entries: Iterable[Entry], *, waits: bool = False) -> Found:
    """One sensor of the files that can be read; of each other, the reason.

    Files that fail in the same way share one line: a machine has hundreds of cores."""
    good: list[Entry] = []
    bad: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        why, fix = _tried(entry)
        if why:
            bad.setdefault((why, fix), []).append(entry.signals[0].where)
        else:
            good.append(entry)
    absent = tuple(
        Absent(meter, f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {why}", fix)
        for (why, fix), names in bad.items()
    )
    return Found((FileSensor(good, waits=waits),) if good else (), absent)


def joined(found: Iterable[Found]) -> Found:
    """What several searches gave, as one."""
    both = tuple(found)
    return Found(
        tuple(sensor for one in both for sensor in one.sensors),
        tuple(absent for one in both for absent in one.absent),
    )


def nothing(meter: str, why: str, fix: str = "") -> Found:
    return Found(absent=(Absent(meter, why, fix),))


def looked(meter: str, root: Path, path: Path, parse: Callable[[str], T]) -> T | Found:
    """What a file says now, or a search without result and why; for what decides the signals."""
    where = called(root, path)
    try:
        return parse(content(path))
    except OSError as error:
        return nothing(meter, f"{where}: {said(error)}", _fix(error, where))
    except ValueError as error:
        return nothing(meter, f"{where}: {error}")


def content(path: Path) -> str:
    """The whole of a small file, read once. Raises OSError."""
    file = KeptFile(path)
    try:
        return file.text()
    finally:
        file.close()


def hint(path: Path) -> str:
    """A file that only helps a search along: its text without the edges, or "" without it."""
    try:
        return content(path).strip()
    except OSError:
        return ""


def there(path: Path) -> bool:
    """Whether it is there, or behind a door that is closed to us: then opening it says so."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def chosen(*paths: Path) -> Path | None:
    """The first that can be read, or else the first that is there; gives None without any."""
    seen = [path for path in paths if there(path)]
    return next((path for path in seen if hint(path)), seen[0] if seen else None)


def listed(folder: Path, pattern: str = ".*") -> list[str]:
    """The names in a folder that match as a whole, cpu2 before cpu10. Raises OSError."""
    form = re.compile(pattern)
    return sorted((name for name in os.listdir(folder) if form.fullmatch(name)), key=_natural)


def within(folder: Path, pattern: str = ".*") -> list[Path]:
    """As `listed`, as paths; none where the folder is missing or closed."""
    try:
        return [folder / name for name in listed(folder, pattern)]
    except OSError:
        return []


def called(root: Path, path: Path) -> str:
    """What the file is called on the machine of which `root` is the image."""
    return "/" + path.relative_to(root).as_posix()


def plain(name: str) -> str:
    """As it may stand inside the name of a quantity."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "unnamed"


def distinct(names: Iterable[str]) -> list[str]:
    """The same names, of equal ones the second as name_2 and so on."""
    taken: set[str] = set()
    result = []
    for name in names:
        tries = (name if turn == 1 else f"{name}_{turn}" for turn in itertools.count(1))
        free = next(one for one in tries if one not in taken)
        taken.add(free)
        result.append(free)
    return result


def number(text: str) -> int:
    """A whole decimal number and nothing else. Raises ValueError."""
    stripped = text.strip()
    if not _WHOLE.fullmatch(stripped):
        raise ValueError(f"says {stripped[:40]!r}, not a whole number")
    return int(stripped)


def count(text: str) -> int:
    """As `number`, and not below 0."""
    got = number(text)
    if got < 0:
        raise ValueError(f"says {got}, which cannot be less than 0")
    return got


def percent(text: str) -> float:
    """`37`, `37%`, `37 %` as 0.37. Raises ValueError outside 0 to 100."""
    got = count(text.strip().removesuffix("%"))
    if got > 100:
        raise ValueError(f"says {got} %, more than all of the time")
    return got / 100


def hertz(value: int, unit: int = 1) -> Value:
    """A clock in Hz from a count of `unit` Hz; 0 is one that stands, not a frequency.

    Raises ValueError for what no clock can be: some buses tell MB/s in such a file."""
    if value == 0:
        return "the clock is off"
    if not 1e5 <= value * unit <= 2e10:
        raise ValueError(f"says {value}, which in units of {unit} Hz is no clock")
    return float(value * unit)


def any_hertz(text: str) -> Value:
    """A GPU's clock from a driver that counts in MHz, kHz or Hz: for a clock between 20 MHz and
    5 GHz the size of the number tells which. Raises ValueError."""
    value = count(text)
    unit = next((unit for unit in (10**6, 10**3, 1) if 2e7 <= value * unit < 5e9), None)
    if unit is None and value:
        raise ValueError(f"says {value}, a clock neither in MHz nor in kHz nor in Hz")
    return hertz(value, unit or 1)


def alone(parse: Callable[[str], Value]) -> Parse:
    """For a file with a single signal."""
    return lambda text: (parse(text),)


def cores(text: str) -> list[int]:
    """`0-3,6` as [0, 1, 2, 3, 6]. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = count(first), count(last or first)
        if high > 65535:
            raise ValueError(f"says {part[:40]!r}: no machine has so many cores")
        found += range(low, high + 1)
    return sorted(set(found))


def _tried(entry: Entry) -> tuple[str, str]:
    """Why the file is of no use, and what would help; two empty texts if it is."""
    try:
        entry.parse(content(entry.path))
    except OSError as error:
        passes = error.errno in _PASSING
        return ("", "") if passes else (said(error), _fix(error, entry.signals[0].where))
    except ValueError as error:
        return str(error), ""
    return "", ""


def _fix(error: OSError, where: str) -> str:
    return f"run as root, or make {where} readable" if error.errno in _DENIED else ""


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() and part.isascii() else (0, part)
            for part in re.split(r"([0-9]+)", name)]
