"""Small trees of sysfs files for the tests of power sensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from handtorch.meters.signal import Found, Signal, Value

RAPL = "sys/class/powercap/intel-rapl:"


def plant(root: Path, files: Mapping[str, object]) -> Path:
    """Write the files below `root`; a value of None makes a folder where a file should be."""
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if value is None:
            path.mkdir()
        else:
            path.write_text(f"{value}\n")
    return root


def plant_tsv(root: Path, listing: Path) -> list[str]:
    """Write a listing of `path TAB value` lines below `root`; the paths in it."""
    lines = listing.read_text(errors="replace").splitlines()
    files = dict(line.lstrip("/").split("\t", 1) for line in lines)
    assert len(files) == len(lines)
    plant(root, files)
    return list(files)


def by_name(found: Found) -> dict[str, Signal]:
    """The signals by quantity; no two have one name."""
    names = {signal.quantity: signal for signal in found.signals}
    assert len(names) == len(found.signals)
    return names


def values(found: Found) -> dict[str, Value]:
    """One reading of everything."""
    got: dict[str, Value] = {}
    for sensor in found.sensors:
        for signal, value in zip(sensor.signals, sensor.read(), strict=True):
            got[signal.quantity] = value
    return got


def close(found: Found) -> None:
    for sensor in found.sensors:
        sensor.close()


def why(found: Found) -> list[str]:
    return [absent.why for absent in found.absent]


def deny(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Files of that name refuse to be opened, as they do to somebody who is not root."""
    true_open = os.open

    def refuse(path: str | Path, *args: int, **more: int) -> int:
        if str(path).endswith(ending):
            raise PermissionError(13, "Permission denied", str(path))
        return true_open(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)


def answers(number: int) -> Callable[..., bytes]:
    """In place of os.pread: hardware that answers with an error."""

    def refuse(*args: int) -> bytes:
        raise OSError(number, os.strerror(number))

    return refuse
