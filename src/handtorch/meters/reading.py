"""A sensor made of the kernel's files; and the search for it, which says why a file is not read."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from handtorch.meters.file import KeptFile, called, chosen, content, listed, said
from handtorch.meters.signal import Absent, Found, Signal, Value

T = TypeVar("T")
K = TypeVar("K")
# One value for each signal of the file. Raises ValueError, with the reason, when the form of the
# file is not the known one; a state ("powered off") is a value like others: text.
Parse = Callable[[str], Sequence[Value]]

# Said by hardware that is asleep or has nothing new: it may answer at the next reading.
_PASSING = {errno.EAGAIN, errno.EBUSY, errno.ENODATA}
_DENIED = {errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file and the signals that are in it."""

    path: Path
    signals: tuple[Signal, ...]
    parse: Parse


def single(root: Path, path: Path, signal: Signal, parse: Callable[[str], Value]) -> Entry:
    """A file with one signal, which says where it is from."""
    return Entry(path, (replace(signal, where=called(root, path)),), lambda text: (parse(text),))


def first(
    root: Path, signal: Signal, files: Mapping[Path, Callable[[str], Value]]
) -> Entry | None:
    """A signal that may be in any of several files, each of its own form: see `chosen`."""
    path = chosen(*files)
    return None if path is None else single(root, path, signal, files[path])


class FileSensor:
    """Reads its files in turn."""

    def __init__(self, entries: Iterable[Entry], *, waits: bool = False) -> None:
        self.entries = tuple(entries)
        self.signals = tuple(signal for entry in self.entries for signal in entry.signals)
        self.waits = waits
        self._files = [KeptFile(entry.path) for entry in self.entries]

    def read(self) -> list[Value]:
        values: list[Value] = []
        for entry, file in zip(self.entries, self._files, strict=True):
            got = taken(file, entry.parse)
            if isinstance(got, str):
                values += [got] * len(entry.signals)
            else:
                assert len(got) == len(entry.signals), f"{entry.path}: {len(got)} values"
                values += got
        return values

    def close(self) -> None:
        for file in self._files:
            file.close()


def taken(file: KeptFile, parse: Callable[[str], T]) -> T | str:
    """What the file says now, or why it says nothing."""
    try:
        return parse(file.text())
    except OSError as error:
        return said(error)
    except ValueError as error:
        return str(error)


def once(path: Path, parse: Callable[[str], T]) -> T | str:
    """As `taken`, of a file that is not kept."""
    file = KeptFile(path)
    try:
        return taken(file, parse)
    finally:
        file.close()


def usable(path: Path, parse: Callable[[str], object]) -> bool:
    """Whether a search would take it: it can be read, or may be at the next reading."""
    return not _refusal(path, parse)[0]


def sifted(
    meter: str, entries: Iterable[Entry], fix: str = ""
) -> tuple[list[Entry], tuple[Absent, ...]]:
    """Those that can be read, or may be at the next reading; and of the others, why not.

    Files that fail in the same way share one line: a machine has hundreds of cores. `fix` is what
    opens those that are closed to us, where a family knows more than the name of the file."""
    good: list[Entry] = []
    bad: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        why, error = _refusal(entry.path, entry.parse)
        if why:
            where = entry.signals[0].where
            bad.setdefault((why, _help(error, where, fix)), []).append(where)
        else:
            good.append(entry)
    return good, tuple(
        Absent(meter, f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {why}", help)
        for (why, help), names in bad.items()
    )


def gather(meter: str, entries: Iterable[Entry], *, waits: bool = False, fix: str = "") -> Found:
    """One sensor of the files that can be read; of each other, the reason: see `sifted`."""
    good, absent = sifted(meter, entries, fix)
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


def unread(meter: str, root: Path, path: Path, error: OSError) -> Found:
    """A search that ended at this file or folder."""
    where = called(root, path)
    return nothing(meter, f"{where}: {said(error)}", _help(error.errno, where))


def lacking(meter: str, root: Path, folder: Path, what: str) -> Found:
    """Why a search of a folder gave nothing: it is not there, or closed to us, or has none."""
    try:
        listed(folder)
    except FileNotFoundError:
        return nothing(meter, f"no {called(root, folder)}")
    except OSError as error:
        return unread(meter, root, folder, error)
    return nothing(meter, f"{called(root, folder)} has no {what}")


def looked(meter: str, root: Path, path: Path, parse: Callable[[str], T]) -> T | Found:
    """What a file says now, or a search without result and why; for what decides the signals."""
    try:
        return parse(content(path))
    except OSError as error:
        return unread(meter, root, path, error)
    except ValueError as error:
        return nothing(meter, f"{called(root, path)}: {error}")


def table(
    meter: str,
    root: Path,
    path: Path,
    rows: Callable[[str], Mapping[K, float]],
    signal: Callable[[K], Signal],
    gone: str,
) -> Found:
    """A file whose rows decide the signals, one for each that is there now; `gone` says of a row
    that it has left, with {} for its name."""
    found = looked(meter, root, path, rows)
    if isinstance(found, Found):
        return found
    known = list(found)

    def parse(text: str) -> list[Value]:
        now = rows(text)
        return [now.get(row, gone.format(row)) for row in known]

    signals = tuple(replace(signal(row), where=called(root, path)) for row in known)
    return gather(meter, (Entry(path, signals, parse),))


def _refusal(path: Path, parse: Callable[[str], object]) -> tuple[str, int | None]:
    """Why the file is of no use, empty if it is; and the error's number where it has one."""
    try:
        parse(content(path))
    except OSError as error:
        return "" if error.errno in _PASSING else said(error), error.errno
    except ValueError as error:
        return str(error), None
    return "", None


def _help(number: int | None, where: str, fix: str = "") -> str:
    return (fix or f"run as root, or make {where} readable") if number in _DENIED else ""
