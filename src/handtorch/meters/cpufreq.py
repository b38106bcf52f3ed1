"""The clock of each core, how long it had which, and how many cores are on.

Forms: Documentation/admin-guide/pm/cpufreq.rst and Documentation/cpu-freq/cpufreq-stats.rst of the
Linux kernel. Cores that share a clock share a policy: its files are read once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from handtorch.meters.file import called, chosen, hint, there, within
from handtorch.meters.parse import cores, count, hertz, shown
from handtorch.meters.procfs import TICK_NS, TICK_S, TICKS_PER_S
from handtorch.meters.reading import Entry, gather, joined, nothing, single, table
from handtorch.meters.signal import MEDIUM_NS, SLOW_NS, Found, Signal

METER = "cpufreq"
_KHZ = 1000
# The kernel's own belief is read before the hardware's: that may need root and a trip to the core.
_FREQUENCY = ("scaling_cur_freq", "cpuinfo_cur_freq", "cpuinfo_avg_freq")


def find(root: Path) -> Found:
    """Hz of every core that has a clock of its own or shares one, seconds at each Hz, cores on."""
    home = root / "sys/devices/system/cpu"
    policies = dict(_policies(home))
    online = _find_online(root, home)
    if not policies:
        why = f"no core has {called(root, home)}/cpuN/cpufreq: its clock is not ours to see"
        return joined((nothing(METER, why), online))
    clocks = [_clock(root, *policy) for policy in policies.items()]
    silent = [called(root, folder) for folder in policies.values() if not chosen(*_files(folder))]
    tables = {members: folder / "stats/time_in_state" for members, folder in policies.items()}
    missing = [called(root, path) for path in tables.values() if not there(path)]
    return joined((
        gather(METER, filter(None, clocks)),
        *(_states(root, members, path) for members, path in tables.items() if there(path)),
        *(nothing(METER, f"{name} tells no frequency") for name in silent),
        # Drivers that let the hardware choose keep no table.
        *(nothing(METER, f"no {name}, of {len(missing)} clocks") for name in missing[:1]),
        online,
    ))


def _policies(home: Path) -> Iterator[tuple[tuple[int, ...], Path]]:
    """Each clock once, with the cores that it drives, from the folders of cores and of policies."""
    seen: set[int] = set()
    for folder in within(home / "cpufreq", "policy[0-9]+") + within(home, "cpu[0-9]+"):
        alone_on = int("".join(filter(str.isdecimal, folder.name)))
        if folder.parent == home:
            folder = folder / "cpufreq"
        members = _members(folder, alone_on)
        if there(folder) and not seen & set(members):
            seen |= set(members)
            yield members, folder


def _members(folder: Path, core: int) -> tuple[int, ...]:
    """`related_cpus` counts offline cores too: they come back to the same clock."""
    try:
        related = {count(one) for one in hint(folder / "related_cpus").split()}
    except ValueError:
        return (core,)
    return tuple(sorted(related)) or (core,)


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in _FREQUENCY]


def _clock(root: Path, members: tuple[int, ...], folder: Path) -> Entry | None:
    """One reading for all cores of the clock; for a core that is off, the clock it would have."""
    path = chosen(*_files(folder))
    if path is None:
        return None
    signals = tuple(
        Signal(METER, f"cpu{core}_clock_hz", "gauge", f"cpu{core}", MEDIUM_NS, step=float(_KHZ),
               where=called(root, path))
        for core in members
    )  # fmt: skip
    return Entry(path, signals, lambda text: [hertz(text, _KHZ)] * len(members))


def seconds_at(text: str) -> dict[int, float]:
    """Seconds since the start of the count, by kHz. Raises ValueError."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 2:
            raise ValueError(f"says {shown(line)}, not a frequency and a time")
        found[count(fields[0])] = count(fields[1]) / TICKS_PER_S
    if not found:
        raise ValueError("is empty")
    return found


def _states(root: Path, members: tuple[int, ...], path: Path) -> Found:
    part = f"cpu{members[0]}" + f"-{members[-1]}" * (len(members) > 1)
    return table(METER, root, path, seconds_at, lambda khz: Signal(
        METER, f"cpu{members[0]}_at_{khz}khz_s", "counter", part, SLOW_NS, TICK_NS, step=TICK_S,
    ), "no longer lists {} kHz")  # fmt: skip


def _find_online(root: Path, home: Path) -> Found:
    path = home / "online"
    signal = Signal(METER, "cores_online_count", "gauge", "cpu", SLOW_NS, step=1.0)
    return gather(METER, (single(root, path, signal, online_count),))


def online_count(text: str) -> float:
    got = len(cores(text))
    if not got:
        raise ValueError("names no core, though one reads it")
    return float(got)
