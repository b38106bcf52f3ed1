"""Small images of machines, and what a search of them tells."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from handtorch.meters.signal import Found, Signal, Value


class Link(str):
    """Where a symbolic link points to."""


def plant(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Link):
            path.symlink_to(text)
        else:
            path.write_text(text)
    return root


def recorded(path: Path) -> dict[str, str]:
    """A tree from a file of `path TAB value`, in which texts of many lines are in quotes."""
    pairs = (line.split("\t") for line in path.read_text().splitlines())
    return {name: (ast.literal_eval(value) if value.startswith("'") else value) + "\n"
            for name, value in pairs}


def values(found: Found) -> dict[str, Value]:
    """By quantity, what one reading of everything gives; all files are closed again."""
    told = {}
    for sensor in found.sensors:
        got = sensor.read()
        assert len(got) == len(sensor.signals)
        told.update({s.quantity: value for s, value in zip(sensor.signals, got, strict=True)})
        sensor.close()
    assert len(told) == len(found.signals)
    return told


def signal(found: Found, quantity: str) -> Signal:
    (one,) = (signal for signal in found.signals if signal.quantity == quantity)
    return one


def reasons(found: Found) -> list[str]:
    return [absent.why for absent in found.absent]


@contextlib.contextmanager
def closed(root: Path, name: str) -> Iterator[Path]:
    """Meanwhile that file or folder is closed to us, even if we are root: who is then nobody.

    The tree goes by the name that this gives: relative, for pytest makes the folders above it for
    their owner alone."""
    path, user, before = root / name, os.geteuid(), Path.cwd()
    mode = path.stat().st_mode
    for folder in (root, *(one for one in root.rglob("*") if one.is_dir())):
        folder.chmod(0o755)
    path.chmod(0)
    os.chdir(root)
    if user == 0:
        os.seteuid(65534)
    try:
        yield Path(".")
    finally:
        os.seteuid(user)
        os.chdir(before)
        path.chmod(mode)
