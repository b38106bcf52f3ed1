"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from handtorch.errors import StorageError


def write_whole(path: Path, what: str, parts: Iterable[bytes]) -> Path:
    """`parts` one after the other are at `path` afterwards; an older file there is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=f"{path.name}.",
                                         delete=False) as file:
            try:
                file.writelines(parts)
                file.close()
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise StorageError(f"{what} {path}", why=f"cannot be written: {error.strerror}",
                           fix="make room, or choose a folder you may write to") from error
    return path
