"""Products that are dear to make, kept in the cache folder for the next process.

A file is a MAC under the user's key (`store/programs.py`) and JSON (`store/products.py`). None is
read that the key does not vouch for: that it is ours, that it is whole, and that it has the name it
was kept under. So what was proven of it when it was made still holds."""

from __future__ import annotations

import hmac
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.errors import StorageError
from handtorch.store.atomic import write_atomically
from handtorch.store.products import product_from_json, product_to_json
from handtorch.store.programs import own_key

MOST_FILES = 100                  # a megabyte or two each; the oldest go first
_MAC_BYTES = 32


class NotKept(UserWarning):
    """The cache cannot be written; everything works, but takes as long again next time."""


def kept(name: str, classes: Iterable[type]) -> Any | None:
    """What was kept under `name`, made of these classes, or None if there is nothing that can be
    believed."""
    try:
        data = _file(name).read_bytes()
        if hmac.compare_digest(data[:_MAC_BYTES], _mac(name, data[_MAC_BYTES:])):
            return product_from_json(data[_MAC_BYTES:], classes)
    except (OSError, StorageError, ValueError):
        pass
    return None


def keep(name: str, product: object) -> None:
    """Afterwards `kept(name)` gives it, in any process of the same user and cache folder.

    A folder that cannot be written costs time later, not the run."""
    data = product_to_json(product).encode()
    try:
        write_atomically(_file(name), _mac(name, data), data)
        files = sorted(_file(name).parent.glob("[!.]*"), key=lambda f: f.stat().st_mtime_ns)
        for old in files[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except (OSError, StorageError) as e:
        warnings.warn(f"not kept for the next start: {e}", NotKept, stacklevel=2)


def _file(name: str) -> Path:
    return knobs.cache_folder() / "kept" / name


def _mac(name: str, data: bytes) -> bytes:
    return hmac.digest(own_key(), b"handtorch kept 2\0" + name.encode() + b"\0" + data, "sha256")
