"""Every family there is, asked in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handtorch.meters import (
    battery,
    cpufreq,
    cpuidle,
    devfreq,
    drm,
    fdinfo,
    hwmon,
    ina3221,
    kgsl,
    mali,
    nvgpu,
    nvml,
    phonegpu,
    procfs,
    rapl,
    schedstat,
    tegrastats,
    thermal,
    threads,
)
from handtorch.meters.reading import joined, nothing
from handtorch.meters.signal import Found, Search

# Families of the machine; a new one is one line.
FAMILIES: tuple[Search, ...] = (
    procfs.find,
    schedstat.find,
    cpufreq.find,
    cpuidle.find,
    thermal.find,
    kgsl.find,
    mali.find,
    nvgpu.find,
    phonegpu.find,
    devfreq.find,
    drm.find,
    rapl.find,
    hwmon.find,
    ina3221.find,
    tegrastats.find,
    nvml.find,
    battery.find,
)
# Families of one process.
OF_A_PROCESS: dict[str, Callable[[Path, int], Found]] = {
    threads.METER: threads.find,
    fdinfo.METER: fdinfo.find,
}


def find_all(root: Path = Path("/"), pid: int | None = None) -> Found:
    """What can be read on the machine of which `root` is the image, of the machine itself and of
    the process `pid`; of everything else, why it cannot."""
    found = [find(root) for find in FAMILIES]
    for meter, find in OF_A_PROCESS.items():
        found.append(nothing(meter, "no process is watched") if pid is None else find(root, pid))
    return joined(found)
