"""Adreno GPUs under Qualcomm's own driver.

Forms, not seen on a machine yet: drivers/gpu/msm/kgsl_pwrctrl.c of Qualcomm's Android kernels
(`gpubusy`, `gpu_busy_percentage`, `gpuclk`). Left alone: devfreq/gpu_load beside them, which starts
its count anew at every reading and so takes it from others (governor_msm_adreno_tz.c)."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters.file import there
from handtorch.meters.parse import count, hertz, percent, shown
from handtorch.meters.reading import first, gather, joined, nothing
from handtorch.meters.signal import MEDIUM_NS, SLOW_NS, Found, Signal, Value

METER = "kgsl"
DEVICE = "sys/class/kgsl/kgsl-3d0"


def find(root: Path) -> Found:
    """How busy the GPU was in the last whole second or more, and its clock."""
    home = root / DEVICE
    if not there(home):
        return nothing(METER, f"no /{DEVICE}")
    # Both come from one pair of counts, renewed once they span a second (UPDATE_BUSY_VAL).
    busy = Signal(METER, "gpu_busy_ratio", "window", "gpu", SLOW_NS, SLOW_NS, basis="documented")
    clock = Signal(METER, "gpu_clock_hz", "gauge", "gpu", MEDIUM_NS, basis="documented")
    return joined(
        gather(METER, (entry,)) if entry else nothing(METER, f"/{DEVICE} has {lack}")
        for lack, entry in (
            ("neither gpubusy nor gpu_busy_percentage", first(root, busy, {
                home / "gpubusy": busy_ratio, home / "gpu_busy_percentage": percent})),
            ("neither gpuclk nor devfreq/cur_freq", first(root, clock, {
                home / "gpuclk": hertz, home / "devfreq/cur_freq": hertz})),
        )
    )  # fmt: skip


def busy_ratio(text: str) -> Value:
    """`  busy total`, both in us. Raises ValueError."""
    fields = text.split()
    if len(fields) != 2:
        raise ValueError(f"says {shown(text)}, not two times")
    busy, total = map(count, fields)
    if busy == total == 0:
        return "the GPU is off"
    if busy > total:
        raise ValueError(f"says it was busy for {busy} of {total} us")
    return busy / total
