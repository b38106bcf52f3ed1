"""What readers of recorded logs share: a line is understood, or reported by its number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from handtorch.errors import StorageError
from handtorch.meters.file import said


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that gave nothing, or not all it holds; lines count from 1."""

    line: int
    why: str


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line with its number, without its end. Raises StorageError for an unreadable file.

    A log may be cut in the middle of a character: what is no UTF-8 is replaced."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise StorageError(f"{path}: the log cannot be read", why=said(error)) from error
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r")
