"""Graphics cards of AMD and Intel; trees from the kernel's documentation, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

from handtorch.meters import drm
from tests.meters.trees import plant, reasons, values

DRM = "sys/class/drm"


def test_two_cards(tmp_path: Path) -> None:
    found = drm.find(plant(tmp_path, {
        f"{DRM}/card0/gt_act_freq_mhz": "1150\n",
        f"{DRM}/card1/device/gpu_busy_percent": "99\n",
        f"{DRM}/card1/device/hwmon/hwmon4/freq1_input": "2450000000\n",
        f"{DRM}/card1-DP-1/status": "connected\n",
    }))  # fmt: skip
    assert values(found) == {
        "card0_clock_hz": 1.15e9, "card1_busy_ratio": 0.99, "card1_clock_hz": 2.45e9}  # fmt: skip
    assert found.sensors[0].waits and {one.basis for one in found.signals} == {"documented"}


def test_a_sleeping_card_has_no_clock(tmp_path: Path) -> None:
    found = drm.find(plant(tmp_path, {f"{DRM}/card0/gt_act_freq_mhz": "0\n"}))
    assert values(found) == {"card0_clock_hz": "the clock is off"}


def test_absent(tmp_path: Path) -> None:
    assert reasons(drm.find(tmp_path)) == ["no /sys/class/drm"]
    plant(tmp_path, {f"{DRM}/card0/device/vendor": "0x1af4\n"})
    assert reasons(drm.find(tmp_path)) == [
        "/sys/class/drm has card0, but no file that tells how busy it is or its clock"]  # fmt: skip
