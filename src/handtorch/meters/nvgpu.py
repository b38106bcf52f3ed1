"""The GPU inside a Jetson.

Form, not seen on a machine yet: gk20a_load_show in drivers/gpu/nvgpu/os/linux/sysfs.c of NVIDIA's
kernels: thousandths of the time, over a period that it does not tell; 0 also when the GPU has no
power, which cannot be told from idle. The answer comes from the GPU's own controller."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters.file import called, there, within
from handtorch.meters.parse import count, hertz
from handtorch.meters.reading import first, gather, joined, nothing, single
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
                  basis="documented")
    clock = Signal(METER, "gpu_clock_hz", "gauge", "gpu", MEDIUM_NS, basis="documented")
    entry = first(root, clock, {node / "cur_freq": hertz for node in within(home / "devfreq")})
    return joined((
        gather(METER, (single(root, home / "load", load, load_ratio),), waits=True),
        gather(METER, (entry,)) if entry
        else nothing(METER, f"{called(root, home)} has no devfreq/*/cur_freq"),
    ))  # fmt: skip


def load_ratio(text: str) -> float:
    if (load := count(text)) > 1000:
        raise ValueError(f"says {load} thousandths, more than all of the time")
    return load / 1000
