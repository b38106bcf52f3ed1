"""Files that were cut or changed, and what may come of reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.errors import BadFile, BadInput


def cuts(data: bytes, every: int = 1) -> Iterator[bytes]:
    """The file ended early: after each of its bytes, or of every so many."""
    return (data[:k] for k in range(0, len(data), every))


def changes(data: bytes, places: range) -> Iterator[bytes]:
    """One byte is another: a bit flipped, all bits flipped, and a full stop, which ends pickles."""
    for k in places:
        for new in {data[k] ^ 1, data[k] ^ 255, ord(".")} - {data[k]}:
            yield data[:k] + bytes((new,)) + data[k + 1:]


def refused_or(path: Path, damaged: Iterator[bytes], read: Callable[[Path], Any],
               accept: Callable[[Any], bool]) -> int:
    """How many were refused with our error, which names the file; the rest was read, acceptably.
    Anything else fails the test."""
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            found = read(path)
        except (BadFile, BadInput) as e:
            assert path.name in str(e) and "try:" in str(e), str(e)
            refused += 1
        else:
            assert accept(found), f"accepted wrongly: {data[:80]!r}"
    return refused


def same(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def text_of_error(error: pytest.ExceptionInfo[Any], path: Path) -> str:
    return str(error.value).replace(str(path), "FILE")
