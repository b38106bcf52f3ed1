"""Graphics cards under the kernel's DRM drivers: AMD's and Intel's own files.

Forms, not seen on a machine yet: `gpu_busy_percent` and hwmon `freq1_input` (Hz) in
Documentation/gpu/amdgpu/thermal.rst, `gt_act_freq_mhz` in drivers/gpu/drm/i915/i915_sysfs.c of the
Linux kernel. AMD does not say over which period its percentage is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from handtorch.meters.file import within
from handtorch.meters.parse import hertz, percent
from handtorch.meters.reading import Entry, first, gather, lacking, nothing
from handtorch.meters.signal import MEDIUM_NS, Found, Signal

METER = "drm"
HOME = "sys/class/drm"


def find(root: Path) -> Found:
    """How busy each card is and its clock, where its driver tells."""
    cards = within(root / HOME, "card[0-9]+")
    entries: list[Entry | None] = []
    for card in cards:
        busy = Signal(METER, f"{card.name}_busy_ratio", "gauge", "gpu", MEDIUM_NS,
                      basis="documented")
        entries.append(first(root, busy, {card / "device/gpu_busy_percent": percent}))
        entries.append(first(root, replace(busy, quantity=f"{card.name}_clock_hz"), {
            card / "gt_act_freq_mhz": lambda text: hertz(text, 10**6),
            **{node / "freq1_input": hertz for node in within(card / "device/hwmon")},
        }))  # fmt: skip
    if not cards:
        return lacking(METER, root, root / HOME, "card")
    if not any(entries):
        there_are = ", ".join(card.name for card in cards)
        why = f"/{HOME} has {there_are}, but no file that tells how busy it is or its clock"
        return nothing(METER, why)
    # AMD's are answered by the card's firmware.
    return gather(METER, filter(None, entries), waits=True)
