"""Parts with a clock that the kernel sets: GPUs under mainline drivers, memory controllers, buses.

Forms, not seen on a machine yet: Documentation/ABI/testing/sysfs-class-devfreq of the Linux kernel
(`cur_freq` in Hz). `load` is each driver's own; only `percent@HzHz` of Rockchip's kernels, which
says its unit, is read. Of a GPU whose own family tells the clock there is no second name here."""

from __future__ import annotations

import os
import re
from pathlib import Path

from handtorch.meters import kgsl, mali, nvgpu
from handtorch.meters.file import there, within
from handtorch.meters.parse import distinct, hertz, percent, plain, shown
from handtorch.meters.reading import gather, joined, lacking, nothing, single
from handtorch.meters.signal import MEDIUM_NS, Found, Signal

METER = "devfreq"
_GPU = re.compile(r"gpu|mali|kgsl|gm20b|gp10b|gv11b|ga10b|g3d")
_MEMORY = re.compile(r"dmc|emc|ddr|bwmgr|mif|bimc|llcc|cpubw|dram")
_MARKS = {"kgsl": "kgsl", "mali": "mali", "nvgpu": nvgpu.NODES}
_LOAD = re.compile(r"([0-9]{1,3})@[0-9]{1,12}Hz")


def find(root: Path) -> Found:
    """The clock of every part, and its load where the driver says in what unit."""
    home = root / "sys/class/devfreq"
    nodes = within(home)
    owners = _owners(root)
    entries, double = [], []
    for node, short in zip(nodes, distinct(plain(node.name) for node in nodes), strict=True):
        if owner := _owner(node, owners):
            double.append(nothing(METER, f"{node.name}: the family {owner} tells of this GPU"))
            continue
        for path, what, parse in (
            (node / "cur_freq", "clock_hz", hertz),
            (node / "load", "busy_ratio", load_ratio),
        ):
            if there(path):
                signal = Signal(METER, f"{short}_{what}", "gauge", part_of(node.name), MEDIUM_NS,
                                basis="documented")
                entries.append(single(root, path, signal, parse))
    if not entries and not double:
        return lacking(METER, root, home, "part with a clock")
    return joined((gather(METER, entries), *double))


def load_ratio(text: str) -> float:
    match = _LOAD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"says {shown(text)}, in a unit that only its driver knows")
    return percent(match[1])


def part_of(name: str) -> str:
    return "gpu" if _GPU.search(name) else "memory" if _MEMORY.search(name) else "machine"


def _owners(root: Path) -> dict[str, str]:
    """By the real folder of a GPU, the family that tells its clock already."""
    places = {"kgsl": root / kgsl.DEVICE / "device", "mali": root / mali.DEVICE,
              "nvgpu": nvgpu.device(root)}
    telling = {signal.meter for family in (kgsl, mali, nvgpu)
               for signal in family.find(root).signals if signal.quantity == "gpu_clock_hz"}
    return {os.path.realpath(place): family for family, place in places.items()
            if place is not None and family in telling}


def _owner(node: Path, owners: dict[str, str]) -> str:
    """A recorded tree may have lost its links: then the node's name must do."""
    if family := owners.get(os.path.realpath(node / "device")):
        return family
    return next((family for family, mark in _MARKS.items()
                 if family in owners.values() and re.search(mark, node.name)), "")
