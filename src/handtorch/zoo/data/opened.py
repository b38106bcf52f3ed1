"""Files that somebody gave us: opened with care, refused with the place where they are wrong."""

from __future__ import annotations

import stat
from pathlib import Path

from handtorch.errors import BadFile, BadInput

AGAIN = "download it again; it was cut or changed on the way, or is another file"
# Deflate, which gz and npz are packed with, makes at most so many bytes of one.
DEFLATE_RATIO = 1032
_MOST_BYTES = 4 << 30                       # the largest of these data sets has 0.2 GB


def bad_at(path: Path, at: int, wrong: str, fix: str = AGAIN) -> BadFile:
    """The error for a file whose bytes from `at` on are not what they should be."""
    return BadFile(f"{path} cannot be used", why=f"at byte {at}: {wrong}", fix=fix)


def bad_line(path: Path, line: int, wrong: str, fix: str = AGAIN) -> BadFile:
    """The error for a text whose line (counted from 1) is not what it should be."""
    return BadFile(f"{path} cannot be used", why=f"in line {line}: {wrong}", fix=fix)


def size_of(path: Path) -> int:
    """Bytes of a file that is there, is a file, and is not larger than any of these data sets."""
    try:
        found = path.stat()
    except OSError as e:
        raise BadInput(f"{path} cannot be read", why=str(e.strerror),
                       fix="check the path; docs/data.md says what is looked for") from e
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"{path} cannot be read", why="it is not a file",
                       fix="name a file; docs/data.md says which")
    if found.st_size > _MOST_BYTES:
        raise BadInput(f"{path} cannot be read",
                       why=f"it has {found.st_size} bytes, and at most {_MOST_BYTES} are read",
                       fix="a part of it")
    return found.st_size


def contents(path: Path) -> bytes:
    """All of a file, whose size is looked at first."""
    size_of(path)
    try:
        return path.read_bytes()
    except OSError as e:
        raise BadInput(f"{path} cannot be read", why=str(e.strerror),
                       fix="make it readable for you") from e


def text_of(path: Path) -> str:
    """A text in UTF-8, with or without its byte-order mark; line ends become a newline."""
    data = contents(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise bad_at(path, e.start, f"byte 0x{data[e.start]:02x} is not UTF-8 ({e.reason})",
                     "convert the file to UTF-8, for example with iconv") from e
    return text.replace("\r\n", "\n").replace("\r", "\n")
