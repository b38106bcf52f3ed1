"""Keeps a text that may name its owner out of what is sent to others.

Most of the file is numbers and words of drivers; texts of errors are not, and an error likes to
name a path. A text that holds a private word is left out whole: half of it may be as telling."""

from __future__ import annotations

import pwd
import re
import socket
from collections.abc import Iterable, Mapping
from functools import cache
from os import getuid
from pathlib import Path
from typing import Any

from handtorch import knobs

LEFT_OUT = "(left out: it names a path, a person or a number of this machine)"
# Folders that are alike on everybody's machine.
_PUBLIC = ("/sys", "/proc", "/dev", "/usr", "/etc", "/bin", "/lib", "/lib64", "/vendor", "/system",
           "/opt")
_PATH = re.compile(r"(?<![\w.~/])~?/[^\s:;,'\"()]+|[A-Za-z]:\\")
_NUMBERS = re.compile(
    r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"     # UUID
    r"|\b(?:[0-9a-f]{2}[:_-]){5}[0-9a-f]{2}\b"                                  # MAC address
    r"|serial\W*(?:no|number)?\W*\w*\d\w*")
_EVERYBODY = {"root", "user", "admin", "android", "shell", "localhost", "system"}
_LEAST = 3                              # characters of a word that could name anybody


def clean(text: str) -> str:
    """The text, or `LEFT_OUT` where it tells of the owner."""
    return LEFT_OUT if tells(text, _own_words()) else text


def cleaned(value: Any) -> Any:
    """A JSON value with every text in it cleaned; names of fields are ours."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {key: cleaned(inner) for key, inner in value.items()}
    return [cleaned(inner) for inner in value] if isinstance(value, list | tuple) else value


def tells(text: str, words: Iterable[str]) -> bool:
    """Whether it holds one of the words as a whole, a path that is not everybody's, or a number
    that only one machine has."""
    if _NUMBERS.search(text) or any(not _is_public(path) for path in _PATH.findall(text)):
        return True
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)


def _is_public(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in _PUBLIC)


@cache
def _own_words() -> frozenset[str]:
    return own_words()


def own_words() -> frozenset[str]:
    """Names of the user and the machine, home, and all paths of the environment."""
    words = set(knobs.private_words()) | {socket.gethostname(), str(Path.home())}
    try:
        entry = pwd.getpwuid(getuid())
    except KeyError:                            # a container's user need not be listed
        pass
    else:
        words |= {entry.pw_name, entry.pw_dir, *entry.pw_gecos.split(",")}
    return frozenset(w.strip().rstrip("/") for w in words
                     if len(w.strip().rstrip("/")) >= _LEAST and w.strip() not in _EVERYBODY
                     and not _is_public(w.strip()))
