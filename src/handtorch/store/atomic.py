"""A file that holds its old contents or all of its new ones, and never anything else."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import tempfile
import time
from pathlib import Path

from handtorch.errors import StorageError

# A writer locks what it writes as soon as it has made it; that much later nobody else takes an
# unlocked one for somebody's that is just being made.
_ABANDONED_AFTER_S = 60.0


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """`path` holds either its old contents or all of `parts`, whatever happens meanwhile, be it the
    end of the process or of the machine's power.

    What killed writers left beside it is removed once it is a minute old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            _lock(file.fileno())
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.replace(made, path)
    except BaseException:
        made.unlink(missing_ok=True)             # an interrupt may come just after the renaming
        raise
    _keep_name(path.parent)
    _sweep(path)


def check_writable(path: Path) -> None:
    """Refuses, before hours of work for it, a `path` that could not be written afterwards."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise StorageError(f"{path} cannot be written", why=str(e.strerror),
                           fix="make room, or choose a folder you may write to") from e


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:                              # held by its writer, or not known to this disk
        return False
    return True


def _keep_name(folder: Path) -> None:
    """The renaming too is on the disk afterwards."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as e:
        if e.errno != errno.EINVAL:              # some network disks keep no folders
            raise
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """A writer that was killed leaves what it had written so far, as large as the whole."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            if age_s > _ABANDONED_AFTER_S and _lock(file.fileno()):
                left.unlink()
