"""A small file of the kernel that is read again and again."""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 65536                       # /proc/stat of a large server is some 10 KiB
_PAGE = 4096                        # a list of the kernel is handed out in pieces of about this


class KeptFile:
    """Stays open: reading anew costs a third of opening, reading and closing."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        """Raises OSError where it cannot be opened."""
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self) -> str:
        """Its whole content now, but at most 64 KiB. Raises OSError."""
        whole = piece = os.pread(self._fd, _MOST, 0)
        while len(piece) > _PAGE // 2 and len(whole) < _MOST:
            piece = os.pread(self._fd, _MOST - len(whole), len(whole))
            whole += piece
        return whole.decode("utf-8", "replace")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def said(error: OSError) -> str:
    """Why a file could not be read, without its path."""
    return error.strerror or str(error)
