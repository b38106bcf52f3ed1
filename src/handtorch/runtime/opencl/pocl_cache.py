"""PoCL's own kernel cache, looked through before PoCL meets it.

PoCL 3.1 trusts what it finds there: an empty or cut-off file, as a full disk or a power failure
leaves behind, ends the process (assertion, bus error), which nothing of ours could catch."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

_LITTER_SECONDS = 24 * 3600
_ENTER_BLOCK, _STRING_TABLE = 1, 23         # of LLVM's bitcode format


def mend(folder: Path) -> tuple[str, ...]:
    """Remove every compiled file that is empty, cut off or of another kind; tells how many.

    Only the structure is looked at, a few reads a file: a changed byte in the middle goes unseen.
    PoCL's temporary files, of which each process leaves one, are removed when a day old."""
    broken = [path for path in _compiled(str(folder)) if not _is_whole(path)]
    for path in (*broken, *_litter(folder)):
        Path(path).unlink(missing_ok=True)
    if not broken:
        return ()
    return (f"{len(broken)} damaged file(s) were removed from PoCL's cache {folder}: those "
            "kernels are compiled again",)


def _compiled(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        if place != folder:                 # there others are writing right now
            yield from (f"{place}/{name}" for name in names if name.endswith((".so", ".bc")))


def _litter(folder: Path) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.name.startswith("tempfile_") and entry.is_file(follow_symlinks=False) and (
                time.time() - entry.stat().st_mtime > _LITTER_SECONDS):
            yield entry.path


def _is_whole(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:                         # another process was quicker, or it is not ours
        return True
    try:
        check = _is_whole_elf if path.endswith(".so") else _is_whole_bitcode
        return check(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _is_whole_elf(file: int, size: int) -> bool:
    """Linkers put the table of sections last, so its end tells the file's size."""
    head = os.pread(file, 64, 0)
    if len(head) < 64 or not head.startswith(b"\x7fELF"):
        return False
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 40 if wide else 32)
    entry, count = struct.unpack_from(order + "HH", head, 58 if wide else 46)
    return bool(table + entry * count <= size)


def _is_whole_bitcode(file: int, size: int) -> bool:
    """LLVM bitcode is a row of blocks, each with its length in its second word; names come last."""
    at, block = 4, 0
    if os.pread(file, 4, 0) != b"BC\xc0\xde":
        return False
    while at < size:
        start, words = struct.unpack("<II", os.pread(file, 8, at).ljust(8, b"\0"))
        if start & 3 != _ENTER_BLOCK:
            return False
        block, at = start >> 2 & 255, at + 8 + 4 * words
    return at == size and block == _STRING_TABLE
