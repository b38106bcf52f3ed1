"""How far a run is, told while it runs: a small file beside the run file, a line for each message.

Its writer holds a lock on it, so that who finds it unlocked knows that the writer was killed. It
goes away when the run ends."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from handtorch.errors import BadInput, StorageError

_LAST_BYTES = 8192          # enough for the last line
_MOST_TEXT = 500
_TRIES, _PAUSE_S = 20, 0.05     # a reader holds the lock for a moment


@dataclass(frozen=True)
class Progress:
    """What was said last, and when; `share` is 0 to 1, None where nobody can tell."""

    text: str
    share: float | None
    left_s: float | None
    said_s: float               # seconds since the epoch: another process reads it
    alive: bool = True          # its writer still runs


class ProgressFile:
    """Open and locked until `close`; a second run into the same file is refused."""

    def __init__(self, run_file: Path) -> None:
        self.path = progress_path(run_file)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as e:
            raise StorageError(f"the file {self.path}", why=e.strerror or str(e),
                               fix="choose a folder you may write to") from e
        if not _locked(self._handle):
            os.close(self._handle)
            raise BadInput(f"a second run into {run_file}", why="another one that still runs "
                           "writes there", fix="wait for it, or another --out")
        os.ftruncate(self._handle, 0)

    def say(self, text: str, share: float | None = None, left_s: float | None = None) -> None:
        said = asdict(Progress(text[:_MOST_TEXT], share, left_s, time.time()))
        del said["alive"]                       # the lock tells
        try:
            os.write(self._handle, json.dumps(said).encode() + b"\n")
        except OSError as e:
            raise StorageError(f"the file {self.path}", why=e.strerror or str(e),
                               fix="make room") from e

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def progress_path(run_file: Path) -> Path:
    return run_file.with_name(f"{run_file.name}.progress")


def read_progress(run_file: Path) -> Progress | None:
    """What the run that writes `run_file` said last; None where there is no such run, or it has
    said nothing yet. A line that is not ours is as if it had not been said."""
    try:
        with progress_path(run_file).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LAST_BYTES))
            lines = file.read(_LAST_BYTES).splitlines()
            alive = not _lock(file.fileno(), fcntl.LOCK_SH)
    except OSError:                             # it has ended meanwhile, or there never was one
        return None
    for line in reversed(lines):
        if (found := _read(line, alive)) is not None:
            return found
    return None


def _read(line: bytes, alive: bool) -> Progress | None:
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, Mapping) or not isinstance(told.get("text"), str):
        return None
    numbers = [told.get(name) for name in ("share", "left_s", "said_s")]
    if any(type(n) not in (int, float) and n is not None for n in numbers) or numbers[2] is None:
        return None
    return Progress(told["text"][:_MOST_TEXT], numbers[0], numbers[1], numbers[2], alive)


def _locked(handle: int) -> bool:
    for _ in range(_TRIES):
        if _lock(handle, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_S)
    return False


def _lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
