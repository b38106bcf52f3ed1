"""Mali GPUs under Arm's own driver (kbase), as phone makers ship it.

Forms, not seen on a machine yet: drivers/gpu/arm/*/platform/exynos/gpu_custom_interface.c of
Samsung's Android kernels: `utilization` in percent of the last period of its governor, `clock`
in MHz or kHz by generation. The mainline kernel's driver has none of these: see fdinfo, devfreq."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters.file import there, within
from handtorch.meters.parse import any_hertz, percent
from handtorch.meters.reading import first, gather, joined, nothing
from handtorch.meters.signal import MEDIUM_NS, Found, Signal

METER = "mali"
DEVICE = "sys/class/misc/mali0/device"
_PERIOD_NS = 100_000_000


def find(root: Path) -> Found:
    """How busy the GPU was in the last period of its governor, and its clock."""
    home = root / DEVICE
    if not there(home):
        return nothing(METER, f"no /{DEVICE}")
    busy = Signal(METER, "gpu_busy_ratio", "window", "gpu", MEDIUM_NS, _PERIOD_NS, step=0.01,
                  basis="documented")
    clock = Signal(METER, "gpu_clock_hz", "gauge", "gpu", MEDIUM_NS, basis="documented")
    clocks = [home / "clock", home / "cur_freq",
              *(node / "cur_freq" for node in within(home / "devfreq"))]
    return joined(
        gather(METER, (entry,)) if entry else nothing(METER, f"/{DEVICE} has no {lack}")
        for lack, entry in (
            ("utilization", first(root, busy, {
                home / "utilization": percent, home / "utilisation": percent})),
            ("clock", first(root, clock, dict.fromkeys(clocks, any_hertz))),
        )
    )  # fmt: skip
