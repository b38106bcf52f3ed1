"""The kernel's small files, and the folders in which they lie."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOST = 65536                       # /proc/stat of a large server is some 10 KiB
_PAGE = 4096                        # a list of the kernel is handed out in pieces of about this


class KeptFile:
    """Opened at its first reading and kept: reading anew costs a third of opening and closing too.

    After a failure it is opened anew: the files of a core that went offline, or of a chip that was
    taken away, come back as new files."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def text(self) -> str:
        """Its whole content now, but at most 64 KiB. Raises OSError."""
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            whole = piece = os.pread(self._fd, _MOST, 0)
            while len(piece) > _PAGE // 2 and len(whole) < _MOST:
                piece = os.pread(self._fd, _MOST - len(whole), len(whole))
                whole += piece
        except OSError:
            self.close()
            raise
        return whole.decode("utf-8", "replace")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def said(error: OSError) -> str:
    """Why a file could not be read, without its path."""
    return error.strerror or str(error)


def content(path: Path) -> str:
    """The whole of a small file, read once. Raises OSError."""
    file = KeptFile(path)
    try:
        return file.text()
    finally:
        file.close()


def hint(path: Path) -> str:
    """A file that only helps a search along: its text without the edges, or "" without it."""
    try:
        return content(path).strip()
    except OSError:
        return ""


def there(path: Path) -> bool:
    """Whether it is there, or behind a door that is closed to us: then opening it says so."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def chosen(*paths: Path) -> Path | None:
    """The first that can be read, or else the first that is there; gives None without any."""
    seen = [path for path in paths if there(path)]
    return next((path for path in seen if hint(path)), seen[0] if seen else None)


def listed(folder: Path, pattern: str = ".*") -> list[str]:
    """The names in a folder that match as a whole, cpu2 before cpu10. Raises OSError."""
    form = re.compile(pattern)
    return sorted((name for name in os.listdir(folder) if form.fullmatch(name)), key=_natural)


def within(folder: Path, pattern: str = ".*") -> list[Path]:
    """As `listed`, as paths; none where the folder is missing or closed."""
    try:
        return [folder / name for name in listed(folder, pattern)]
    except OSError:
        return []


def called(root: Path, path: Path) -> str:
    """What the file is called on the machine of which `root` is the image."""
    return "/" + path.relative_to(root).as_posix()


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() and part.isascii() else (0, part)
            for part in re.split(r"([0-9]+)", name)]
