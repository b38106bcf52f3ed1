"""What a long study has measured so far: a folder with a small file for each row.

A file is there whole or not at all, so that a run that was killed at any moment goes on where it
stood. One run at a time: the folder is locked while it is used, and the lock goes with the process.
A row knows the code that measured it: rows of different code are not mixed in a run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput, StorageError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.pipeline import sources, with_tuned
from handtorch.record import Verdict
from handtorch.runtime.opencl.setting import software
from handtorch.store.atomic import write_atomically

VERSION = 1
SAME_CODE = "Was every row of this run measured by the same code?"
_LOCK = "lock"
_LIBRARIES = ("handtorch", "numpy", "torch")
_ONLY_SHOW = ("cli", "doctor", "report")    # a study loads none of them
_MOST_LISTED = 8


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Inside, nobody else uses the folder; who comes second is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as e:
        raise StorageError(f"the folder {folder}", why=str(e.strerror),
                           fix="choose a folder you may write to") from e
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BadInput(f"a second run into {folder}", why="another one that still runs writes "
                       "there", fix="wait for it, or another --out") from None
    try:
        yield
    finally:
        os.close(handle)


class Kept:
    """Rows by key, in a folder that is `held`. `setting` is what a row depends on besides its key
    (device, driver, memory): a row of another setting is as if it were not there. So is one that
    other code has measured, but that is told: at once to `say`, and to the run by `verdict`.
    What was tuned for `spec` counts as code, since kernels are made of it."""

    def __init__(self, folder: Path, setting: Mapping[str, Any],
                 say: Callable[[str], None] = lambda text: None,
                 spec: DeviceSpec | None = None) -> None:
        self.folder, self._setting, self._say = folder, dict(setting), say
        self._spec, self._code = spec, code(spec)
        self.left_out: dict[str, str] = {}      # by key, in which way the code is another
        self.changed: list[str] = []            # measured after the code had changed on the disk

    def get(self, key: str) -> Any:
        """The row, or None. A file that cannot be read is refused: it is never taken for none."""
        path = self._path(key)
        try:
            told = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as e:
            raise StorageError(f"{path}", why=str(e), fix="remove it, and it is measured again"
                               ) from e
        if not isinstance(told, dict) or told.get("version") != VERSION \
                or told.get("setting") != self._setting:
            return None
        if told.get("code") != self._code and key not in self.changed:
            if not self.left_out:
                self._say("rows that other code has kept are left out; another --out keeps them")
            self.left_out[key] = differs(told.get("code"), self._code)
            return None
        return told.get("row")

    def put(self, key: str, row: Any) -> None:
        """The row is on the disk afterwards, with the code as it is on the disk by now: that is
        what a child process runs."""
        now = code(self._spec)
        if now != self._code:
            self.changed.append(key)
        text = json.dumps({"version": VERSION, "setting": self._setting, "code": now, "row": row})
        try:
            write_atomically(self._path(key), text.encode())
        except OSError as e:
            raise StorageError(f"{self._path(key)}", why=str(e.strerror), fix="make room") from e

    def verdict(self, study: str) -> Iterator[Verdict]:
        """For the run, where there is something to tell of."""
        said = []
        if self.changed:
            said.append(f"the code was changed while the study ran, before {_few(self.changed)}")
        for why in dict.fromkeys(self.left_out.values()):
            keys = [key for key, reason in self.left_out.items() if reason == why]
            count = f"{len(keys)} kept row{'s' if len(keys) > 1 else ''}"
            said.append(f"{count} of other code ({why}) left out: {_few(keys)}")
        if said:
            yield Verdict(study=study, question=SAME_CODE, holds=not self.changed,
                          answer=f"{'No' if self.changed else 'Yes'}: {'; '.join(said)}.")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def code(spec: DeviceSpec | None = None) -> dict[str, str | None]:
    """Which code measures, now: this package, without the rooms that only show what was measured,
    the libraries that have a say in a row, and what kernels were tuned to on the device."""
    tuned = None if spec is None else with_tuned(spec)
    chosen = "" if tuned is None else hashlib.sha256(
        repr((tuned.tuned, tuned.avoid)).encode()).hexdigest()[:12]
    return {"sources": sources(_ONLY_SHOW)[:12], "tuning": chosen,
            **{row.name: row.version for row in software(_LIBRARIES)}}


def differs(then: Any, now: Mapping[str, str | None]) -> str:
    """In which way other code is another: `torch 2.12.0 then, 2.13.0 now`."""
    if not isinstance(then, dict):
        return "it is not known which"
    return "; ".join(f"{name} {then.get(name)} then, {now.get(name)} now"
                     for name in dict.fromkeys((*now, *then)) if then.get(name) != now.get(name))


def _few(keys: Sequence[str]) -> str:
    more = len(keys) - _MOST_LISTED
    return ", ".join(keys[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
