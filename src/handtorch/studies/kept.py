"""What a long study has measured so far: a folder with a small file for each row.

A file is there whole or not at all, so that a run that was killed at any moment goes on where it
stood. One run at a time: the folder is locked while it is used, and the lock goes with the process.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handtorch.errors import BadInput, StorageError
from handtorch.store.atomic import write_atomically

VERSION = 1
_LOCK = "lock"


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
    (device, driver, memory): a row of another setting is as if it were not there."""

    def __init__(self, folder: Path, setting: Mapping[str, Any]) -> None:
        self.folder, self._setting = folder, dict(setting)

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
        return told.get("row")

    def put(self, key: str, row: Any) -> None:
        """The row is on the disk afterwards."""
        text = json.dumps({"version": VERSION, "setting": self._setting, "row": row})
        try:
            write_atomically(self._path(key), text.encode())
        except OSError as e:
            raise StorageError(f"{self._path(key)}", why=str(e.strerror), fix="make room") from e

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
