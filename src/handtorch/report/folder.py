"""The run files of a folder: how each stands, and what is new in one that is being written."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from handtorch.errors import BadInput, HandTorchError
from handtorch.record.glance import Glance, glance
from handtorch.record.progress import Progress, read_progress

# What a long study keeps beside its run file so far, a line for each row: (key, text).
KeptRows = Callable[[Path], Sequence[tuple[str, str]]]
_PART = re.compile(r"(?P<run>.+\.htr)\.[0-9a-f]{8}\.part")
_MOST_FILES = 5000
_QUIET_S = 600.0            # a run without a progress file that has not written for so long


@dataclass(frozen=True)
class Entry:
    """A run file as the list shows it. `state` is the run's own word, or `killed` for one that was
    never finished and whose writer is gone, or `unreadable` with the reason in `why`."""

    name: str
    title: str
    state: str
    command: str = ""
    started_utc: str = ""
    duration_ns: int | None = None
    results: int = 0
    why: str = ""
    size_bytes: int = 0
    progress: Progress | None = None


class Folder:
    """Nothing outside of `path` is looked at, and nothing in it but run files, by their names as
    the folder lists them."""

    def __init__(self, path: Path, kept: KeptRows = lambda folder: ()) -> None:
        self.path, self._kept = path, kept
        self._known: dict[tuple[str, int, int], Glance | HandTorchError] = {}
        if not path.is_dir():
            raise BadInput(f"the folder {path}", why="it is not there" if not path.exists() else
                           "it is no folder", fix="name a folder with .htr files, or run "
                           "`handtorch study all --quick` first")

    def names(self) -> list[str]:
        """Run files, and those that are being written, in the order of their names."""
        with os.scandir(self.path) as found:
            names = [e.name for e in found
                     if (e.name.endswith(".htr") or _PART.fullmatch(e.name)) and e.is_file()]
        return sorted(names)[:_MOST_FILES]

    def file(self, name: str) -> Path | None:
        """The file of that name, if the folder lists it: a name is compared, no more."""
        return next((self.path / known for known in self.names() if known == name), None)

    def entries(self) -> list[Entry]:
        """Newest first; runs that cannot be read are last."""
        found = [self.entry(name) for name in self.names()]
        return sorted(found, key=lambda e: e.started_utc, reverse=True)

    def entry(self, name: str) -> Entry:
        path, title = self.path / name, run_file_of(name)
        try:
            stat = path.stat()
        except OSError as e:                    # it has ended, and was renamed, meanwhile
            return Entry(name, title, "unreadable", why=e.strerror or str(e))
        known = self._glance(path, stat)
        if isinstance(known, HandTorchError):
            return Entry(name, title, "unreadable", why=known.why or known.what,
                         size_bytes=stat.st_size)
        info, said = known.info, None
        state: str = info.status
        if name != title:
            said = read_progress(self.path / title)
            state = "running" if is_alive(said, stat.st_mtime) else "killed"
        elif state == "running":                # whole, and yet it says so: somebody renamed it
            state = "killed"
        return Entry(name, title, state, info.command, info.started_utc, info.duration_ns,
                     known.result_count, info.status_reason, stat.st_size, said)

    def kept(self, name: str) -> Sequence[tuple[str, str]]:
        """What the run's long studies have kept so far."""
        return self._kept((self.path / run_file_of(name)).with_suffix(".kept"))

    def _glance(self, path: Path, stat: os.stat_result) -> Glance | HandTorchError:
        """Read again only if the file has changed."""
        key = path.name, stat.st_mtime_ns, stat.st_size
        if key not in self._known:
            for old in [k for k in self._known if k[0] == path.name]:
                self._known.pop(old, None)
            try:
                self._known[key] = glance(path)
            except HandTorchError as e:
                return e                        # perhaps only just now
        return self._known[key]


def run_file_of(name: str) -> str:
    """The name that a run file which is being written will have."""
    found = _PART.fullmatch(name)
    return found["run"] if found else name


def is_alive(said: Progress | None, written_s: float) -> bool:
    """Whether somebody still writes. Without a progress file only its age can tell."""
    if said is not None:
        return said.alive
    return time.time() - written_s < _QUIET_S
