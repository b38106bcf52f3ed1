"""The kernel's own count: how long each core was busy and idle, and the memory that is left.

Forms: Documentation/filesystems/proc.rst of the Linux kernel, 1.7 and 1.2."""

from __future__ import annotations

import os
import re
from pathlib import Path

from handtorch.meters.file import called, hint, said
from handtorch.meters.parse import cores, count, shown
from handtorch.meters.reading import Entry, gather, joined, looked
from handtorch.meters.signal import MEDIUM_NS, Found, Signal, Value

METER = "procfs"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TICK_S, TICK_NS = 1 / TICKS_PER_S, 10**9 // TICKS_PER_S
ALL = -1
_CORE = re.compile(r"cpu([0-9]{1,5})")
_MOST_BYTES = 2**60


def find(root: Path) -> Found:
    """Seconds of every core that this machine has, online or not, and the memory of all."""
    return joined((_find_stat(root), _find_memory(root)))


def core_seconds(text: str) -> dict[int, tuple[float, float]]:
    """(busy, idle) of each core that is online, in seconds since the start of the machine.

    `guest` is inside `user` already, and steal is neither: somebody else's work was done then.
    Both can fall by a few ticks where the kernel corrects its count of `iowait`."""
    return {core: _seconds(ticks) for core, ticks in core_ticks(text).items() if core != ALL}


def core_ticks(text: str) -> dict[int, list[int]]:
    """The counts of each core, and of all together under `ALL`. Raises ValueError.

    They come first in the file, before some 100 kB of interrupts that are not looked at; so a last
    line without its end may be cut and is left out."""
    found: dict[int, list[int]] = {}
    at = 0
    while text.startswith("cpu", at) and (end := text.find("\n", at)) >= 0:
        name, *ticks = text[at:end].split()
        match = _CORE.fullmatch(name)
        if name != "cpu" and match is None:
            raise ValueError(f"says {shown(name)} where a core should be")
        if len(ticks) < 5:
            raise ValueError(f"has {len(ticks)} counts for {name}, not 5 or more")
        found[int(match[1]) if match else ALL] = _counts(ticks)
        at = end + 1
    if not found:
        raise ValueError("has no line of a core")
    return found


def _counts(ticks: list[str]) -> list[int]:
    """Quickly, as a rule: this is read ten times a second."""
    if all(map(str.isdecimal, ticks)) and "".join(ticks).isascii():
        return list(map(int, ticks))
    return [count(tick) for tick in ticks]              # which says what is wrong


def used_seconds(root: Path = Path("/")) -> Value:
    """Processor time of all programs since the machine was started, and what its host took."""
    path = root / "proc/stat"
    try:
        total = core_ticks(path.read_text()).get(ALL)
    except OSError as error:                # Android hides it
        return f"{called(root, path)}: {said(error)}"
    except ValueError as error:
        return f"{called(root, path)} {error}"
    if total is None:
        return f"{called(root, path)} has no line of all cores"
    return _seconds(total)[0] + sum(total[7:8]) / TICKS_PER_S


def tree_seconds(pid: int, root: Path = Path("/")) -> Value:
    """Processor time of a process and all under it so far, those among them that have ended too.

    Who was left behind by a parent that has ended is under it no longer."""
    spent: dict[int, float] = {}
    under: dict[int, list[int]] = {}
    for path in (root / "proc").glob("[0-9]*/stat"):
        try:
            # The name of a program, in brackets, may have anything in it.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            parent, *ticks = (int(fields[i]) for i in (1, 11, 12, 13, 14))
        except (OSError, ValueError, IndexError):
            continue                        # it has just ended
        spent[number := int(path.parent.name)] = sum(ticks) / TICKS_PER_S
        under.setdefault(parent, []).append(number)
    if pid not in spent:
        return f"{called(root, root / 'proc' / str(pid) / 'stat')} cannot be read"
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        total += spent[one]
        todo += under.pop(one, [])
    return total


def _seconds(ticks: list[int]) -> tuple[float, float]:
    user, nice, system, idle, wait = ticks[:5]
    busy = user + nice + system + sum(ticks[5:7])           # irq and softirq
    return busy / TICKS_PER_S, (idle + wait) / TICKS_PER_S


def _stolen(ticks: list[int]) -> Value:
    """Core-seconds in which a virtual machine wanted to run and was not let."""
    return ticks[7] / TICKS_PER_S if len(ticks) > 7 else "this kernel does not count stolen time"


def _find_stat(root: Path) -> Found:
    path = root / "proc/stat"
    online = looked(METER, root, path, core_seconds)
    if isinstance(online, Found):
        return online
    known = sorted({*online, *_present(root)})
    signals = tuple(
        Signal(METER, f"cpu{core}_{what}_s", "counter", f"cpu{core}", MEDIUM_NS, TICK_NS,
               step=TICK_S, where=called(root, path))
        for core in known for what in ("busy", "idle")
    )  # fmt: skip
    stolen = Signal(METER, "stolen_s", "counter", "cpu", MEDIUM_NS, TICK_NS, step=TICK_S,
                    where=called(root, path))

    def parse(text: str) -> list[Value]:
        ticks = core_ticks(text)
        values: list[Value] = []
        for core in known:
            here = ticks.get(core)
            values += _seconds(here) if here else [f"core {core} is offline"] * 2
        return [*values, _stolen(ticks.get(ALL, []))]

    return gather(METER, (Entry(path, (*signals, stolen), parse),))


def _present(root: Path) -> list[int]:
    try:
        return cores(hint(root / "sys/devices/system/cpu/present"))
    except ValueError:
        return []                       # a list of cores that cannot be understood adds none


def memory_bytes(text: str, name: str) -> float:
    """One line of meminfo. Raises ValueError."""
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            value, _, unit = rest.strip().partition(" ")
            if unit.strip() != "kB":
                raise ValueError(f"{name} is in {unit.strip()[:20]!r}, not in kB")
            if (size := count(value) * 1024) > _MOST_BYTES:
                raise ValueError(f"{name} says {size} bytes")
            return float(size)
    raise ValueError(f"has no line {name}")


def _find_memory(root: Path) -> Found:
    path = root / "proc/meminfo"
    # NvMapMemUsed is what the GPU of a Jetson holds of the memory that both share.
    lines = [("MemAvailable", "memory_available_bytes", "memory")]
    if "NvMapMemUsed:" in hint(path):
        lines.append(("NvMapMemUsed", "gpu_memory_used_bytes", "gpu"))
    signals = tuple(
        Signal(METER, quantity, "gauge", part, MEDIUM_NS, step=1024.0, where=called(root, path),
               basis="documented" if part == "gpu" else "captured")
        for _, quantity, part in lines
    )  # fmt: skip
    return gather(METER, (
        Entry(path, signals, lambda text: [memory_bytes(text, name) for name, _, _ in lines]),
    ))
