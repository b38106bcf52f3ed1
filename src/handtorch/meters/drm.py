"""Graphics cards under the kernel's DRM drivers: AMD's and Intel's own files.

Forms, not seen on a machine yet: `gpu_busy_percent` and hwmon `freq1_input` (Hz) in
Documentation/gpu/amdgpu/thermal.rst, `gt_act_freq_mhz` in drivers/gpu/drm/i915/i915_sysfs.c of the
Linux kernel. AMD does not say over which period its percentage is taken."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters.reading import (
    Entry,
    Parse,
    alone,
    called,
    chosen,
    count,
    gather,
    hertz,
    nothing,
    percent,
    there,
    within,
)
from handtorch.meters.signal import MEDIUM_NS, Found, Signal

METER = "drm"


def find(root: Path) -> Found:
    """How busy each card is and its clock, where its driver tells."""
    cards = within(root / "sys/class/drm", "card[0-9]+")
    entries = []
    for card in cards:
        clock = chosen(card / "gt_act_freq_mhz",
                       *(node / "freq1_input" for node in within(card / "device/hwmon")))
        unit = 10**6 if clock == card / "gt_act_freq_mhz" else 1
        for path, what, parse in (
            (card / "device/gpu_busy_percent", "busy_ratio", alone(percent)),
            (clock, "clock_hz", _clock_in(unit)),
        ):
            if path is not None and there(path):
                signal = Signal(METER, f"{card.name}_{what}", "gauge", "gpu", MEDIUM_NS,
                                basis="documented", where=called(root, path))
                entries.append(Entry(path, (signal,), parse))
    if not entries:
        there_are = ", ".join(card.name for card in cards)
        why = f"has {there_are}, but no file" if cards else "has no card"
        return nothing(METER, f"/sys/class/drm {why} that tells how busy it is or its clock")
    return gather(METER, entries, waits=True)      # AMD's are answered by the card's firmware


def _clock_in(unit: int) -> Parse:
    return alone(lambda text: hertz(count(text), unit))
