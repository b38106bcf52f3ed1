"""The GPU inside a Jetson.

Form, not seen on a machine yet: gk20a_load_show in drivers/gpu/nvgpu/os/linux/sysfs.c of NVIDIA's
kernels: thousandths of the time, over a period that it does not tell; 0 also when the GPU has no
power, which cannot be told from idle. The answer comes from the GPU's own controller."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters.reading import (
    Entry,
    alone,
    called,
    chosen,
    count,
    gather,
    hertz,
    joined,
    nothing,
    there,
    within,
)
from handtorch.meters.signal import MEDIUM_NS, Found, Signal

METER = "nvgpu"
NODES = r".*\.(gm20b|gp10b|gv11b|ga10b|gpu)"


def device(root: Path) -> Path | None:
    """The folder of the GPU, under the name that the board has for it."""
    places = [root / "sys/devices/gpu.0", root / "sys/devices/platform/gpu.0"]
    places += [node / "device" for node in within(root / "sys/class/devfreq", NODES)]
    return next((place for place in places if there(place / "load")), None)


def find(root: Path) -> Found:
    """How busy the GPU is, and its clock."""
    home = device(root)
    if home is None:
        return nothing(METER, "no gpu.0/load, nor one beside a Jetson's GPU in /sys/class/devfreq")
    load = Signal(METER, "gpu_busy_ratio", "gauge", "gpu", MEDIUM_NS, step=0.001,
                  basis="documented", where=called(root, home / "load"))
    found = [gather(METER, (Entry(home / "load", (load,), alone(load_ratio)),), waits=True)]
    clock = chosen(*(node / "cur_freq" for node in within(home / "devfreq")))
    if clock is None:
        return joined((*found, nothing(METER, f"{called(root, home)} has no devfreq/*/cur_freq")))
    signal = Signal(METER, "gpu_clock_hz", "gauge", "gpu", MEDIUM_NS, basis="documented",
                    where=called(root, clock))
    parse = alone(lambda text: hertz(count(text)))
    return joined((*found, gather(METER, (Entry(clock, (signal,), parse),))))


def load_ratio(text: str) -> float:
    if (load := count(text)) > 1000:
        raise ValueError(f"says {load} thousandths, more than all of the time")
    return load / 1000
