"""Adreno GPUs under Qualcomm's own driver.

Forms, not seen on a machine yet: drivers/gpu/msm/kgsl_pwrctrl.c of Qualcomm's Android kernels
(`gpubusy`, `gpu_busy_percentage`, `gpuclk`). Left alone: devfreq/gpu_load beside them, which starts
its count anew at every reading and so takes it from others (governor_msm_adreno_tz.c)."""

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
    percent,
    there,
)
from handtorch.meters.signal import MEDIUM_NS, SLOW_NS, Found, Signal, Value

METER = "kgsl"
DEVICE = "sys/class/kgsl/kgsl-3d0"


def find(root: Path) -> Found:
    """How busy the GPU was in the last whole second or more, and its clock."""
    home = root / DEVICE
    if not there(home):
        return nothing(METER, f"no /{DEVICE}")
    busy = chosen(home / "gpubusy", home / "gpu_busy_percentage")
    clock = chosen(home / "gpuclk", home / "devfreq/cur_freq")
    found = []
    if busy is None:
        found.append(nothing(METER, f"/{DEVICE} has neither gpubusy nor gpu_busy_percentage"))
    else:
        # Both come from one pair of counts, renewed once they span a second (UPDATE_BUSY_VAL).
        signal = Signal(METER, "gpu_busy_ratio", "window", "gpu", SLOW_NS, SLOW_NS,
                        basis="documented", where=called(root, busy))
        parse = busy_ratio if busy.name == "gpubusy" else percent
        found.append(gather(METER, (Entry(busy, (signal,), alone(parse)),)))
    if clock is None:
        found.append(nothing(METER, f"/{DEVICE} has neither gpuclk nor devfreq/cur_freq"))
    else:
        signal = Signal(METER, "gpu_clock_hz", "gauge", "gpu", MEDIUM_NS, basis="documented",
                        where=called(root, clock))
        parse_clock = alone(lambda text: hertz(count(text)))
        found.append(gather(METER, (Entry(clock, (signal,), parse_clock),)))
    return joined(found)


def busy_ratio(text: str) -> Value:
    """`  busy total`, both in us. Raises ValueError."""
    fields = text.split()
    if len(fields) != 2:
        raise ValueError(f"says {text.strip()[:40]!r}, not two times")
    busy, total = map(count, fields)
    if busy == total == 0:
        return "the GPU is off"
    if busy > total:
        raise ValueError(f"says it was busy for {busy} of {total} us")
    return busy / total
