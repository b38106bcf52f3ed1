"""Names under /sys/kernel that phone makers give to whichever GPU they built in.

Forms, not seen on a machine yet. Samsung: show_kernel_sysfs_utilization (`37%`) and
show_kernel_sysfs_clock in gpu_custom_interface.c of its Android kernels. MediaTek: gpu_utilization
(`loading block idle` in percent) and current_freqency (sic: `index kHz`) in ged_hal.c of its own.
Where the GPU's driver tells the same under its own name, that one is kept and this one left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from handtorch.meters import kgsl, mali
from handtorch.meters.file import there
from handtorch.meters.parse import any_hertz, hertz, percent, shown
from handtorch.meters.reading import gather, joined, nothing, single
from handtorch.meters.signal import MEDIUM_NS, Found, Signal, Value

METER = "phonegpu"
BUSY, CLOCK = "gpu_busy_ratio", "gpu_clock_hz"


def find(root: Path) -> Found:
    """How busy the GPU is and its clock, as far as no other family has these."""
    known = {signal.quantity for family in (kgsl, mali) for signal in family.find(root).signals}
    entries, double = [], []
    for quantity, file, parse in _there(root):
        if quantity in known:
            double.append(nothing(METER, f"/{file}: {quantity} is told by the GPU's driver"))
            continue
        known.add(quantity)
        signal = Signal(METER, quantity, "gauge", "gpu", MEDIUM_NS, basis="documented")
        entries.append(single(root, root / file, signal, parse))
    if not entries and not double:
        return nothing(METER, "no /sys/kernel/gpu, no /sys/kernel/ged/hal")
    return joined((gather(METER, entries), *double))


def _there(root: Path) -> Iterator[tuple[str, str, Callable[[str], Value]]]:
    yield from (one for one in (
        (BUSY, "sys/kernel/gpu/gpu_busy", percent),
        (CLOCK, "sys/kernel/gpu/gpu_clock", any_hertz),
        (BUSY, "sys/kernel/ged/hal/gpu_utilization", ged_busy),
        (CLOCK, "sys/kernel/ged/hal/current_freqency", ged_clock),
        (BUSY, "sys/kernel/debug/ged/hal/gpu_utilization", ged_busy),
        (CLOCK, "sys/kernel/debug/ged/hal/current_freqency", ged_clock),
    ) if there(root / one[1]))  # fmt: skip


def ged_busy(text: str) -> Value:
    fields = text.split()
    if len(fields) != 3:
        raise ValueError(f"says {shown(text)}, not three parts of the time")
    return percent(fields[0])


def ged_clock(text: str) -> Value:
    fields = text.split()
    if len(fields) != 2:
        raise ValueError(f"says {shown(text)}, not a number and a clock")
    return hertz(fields[1], 1000)
