"""What one process uses of a GPU, from the files through which it has the GPU open.

The best count of GPU time under mainline drivers (Panfrost, msm, i915, amdgpu). Form, not seen on a
machine yet: Documentation/gpu/drm-usage-stats.rst of the Linux kernel. The GPU must be open when
this is called; to see one that is opened later, search again."""

from __future__ import annotations

import re
from pathlib import Path

from handtorch.meters.file import called, hint, within
from handtorch.meters.parse import count, distinct, hertz, plain, shown
from handtorch.meters.reading import Entry, Parse, gather, joined, lacking, nothing
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, Found, Kind, Signal, Value

METER = "fdinfo"
_KEYS = re.compile(r"drm-(engine|curfreq|resident)-(?!capacity-)(.+)")
_UNITS = {
    "engine": {"ns": 1},
    "curfreq": {"Hz": 1, "KHz": 10**3, "MHz": 10**6},
    "resident": {"": 1, "KiB": 2**10, "MiB": 2**20},
}
_IDENTITY = ("drm-driver", "drm-pdev", "drm-client-id")
_WHAT: dict[str, tuple[str, Kind, int]] = {
    "engine": ("busy_s", "counter", FAST_NS),
    "curfreq": ("clock_hz", "gauge", MEDIUM_NS),
    "resident": ("resident_bytes", "gauge", MEDIUM_NS),
}


def find(root: Path, pid: int) -> Found:
    """One set of signals for each opening of a GPU; copies of a descriptor are one opening."""
    home = root / "proc" / str(pid) / "fdinfo"
    clients: dict[tuple[str, ...], tuple[Path, dict[str, str]]] = {}
    for path in within(home, "[0-9]+"):
        told = lines(hint(path))
        if "drm-driver" in told:
            clients.setdefault(identity(told), (path, told))
    if not clients:
        return lacking(METER, root, home, "GPU open that counts its use")
    names = distinct(
        plain(driver) + f"_client{plain(client)}" * (len(clients) > 1)
        for driver, _, client in clients
    )
    each = zip(names, clients.items(), strict=True)
    return joined(_client(root, name, key, *where) for name, (key, where) in each)


def lines(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def identity(told: dict[str, str]) -> tuple[str, ...]:
    return tuple(told.get(key, "") for key in _IDENTITY)


def amount(kind: str, text: str) -> Value:
    """A value in seconds, Hz or bytes. Raises ValueError."""
    value, _, unit = text.partition(" ")
    factor = _UNITS[kind].get(unit.strip())
    if factor is None:
        raise ValueError(f"says {shown(text)}, in an unknown unit")
    if kind == "engine":
        return count(value) / 1e9
    return hertz(value, factor) if kind == "curfreq" else float(count(value) * factor)


def _client(root: Path, name: str, key: tuple[str, ...], path: Path, told: dict[str, str]) -> Found:
    """The groups of one opening: fast counts of engines, and slower states."""
    driver = key[0]
    found = []
    for kind, (what, how, every_ns) in _WHAT.items():
        there = [(one, match[2]) for one in told
                 if (match := _KEYS.fullmatch(one)) and match[1] == kind]
        if not there and kind == "engine":
            found.append(nothing(
                METER, f"{called(root, path)}: {driver} does not count the time of its engines",
                "write 1 to the file `profiling` of the GPU's driver"
                if driver in ("panfrost", "panthor") else "",
            ))  # fmt: skip
        if there:
            signals = tuple(
                Signal(METER, f"{name}_{part}_{what}", how, "gpu", every_ns,
                       step=1e-9 if kind == "engine" else 0.0, basis="documented",
                       where=called(root, path))
                for part in distinct(plain(part) for _, part in there)
            )  # fmt: skip
            parse = _parser(kind, key, tuple(one for one, _ in there))
            found.append(gather(METER, (Entry(path, signals, parse),)))
    return joined(found)


def _parser(kind: str, key: tuple[str, ...], names: tuple[str, ...]) -> Parse:
    def parse(text: str) -> list[Value]:
        told = lines(text)
        if identity(told) != key:         # the number was given to another file
            raise ValueError("the process has closed the GPU")
        return [amount(kind, told[name]) if name in told else f"no longer tells {name}"
                for name in names]

    return parse
