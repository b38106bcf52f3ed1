"""Samsung's and MediaTek's names; trees from their sources, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import phonegpu
from tests.meters.trees import plant, reasons, values

GED = "sys/kernel/ged/hal"


def test_samsung(tmp_path: Path) -> None:
    plant(tmp_path, {"sys/kernel/gpu/gpu_busy": " 37%\n", "sys/kernel/gpu/gpu_clock": "455\n"})
    found = phonegpu.find(tmp_path)
    assert values(found) == {"gpu_busy_ratio": 0.37, "gpu_clock_hz": 455e6}
    assert {one.basis for one in found.signals} == {"documented"}


@pytest.mark.parametrize("home", [GED, "sys/kernel/debug/ged/hal"])
def test_mediatek(tmp_path: Path, home: str) -> None:
    tree = {"gpu_utilization": "7 0 93\n", "current_freqency": "24 390000\n"}
    plant(tmp_path, {f"{home}/{name}": text for name, text in tree.items()})
    assert values(phonegpu.find(tmp_path)) == {"gpu_busy_ratio": 0.07, "gpu_clock_hz": 390e6}


def test_what_the_driver_tells_has_no_second_name(tmp_path: Path) -> None:
    """A Samsung phone with Adreno: both speak of one GPU. kgsl has no clock here."""
    plant(tmp_path, {
        "sys/class/kgsl/kgsl-3d0/gpubusy": "1 2\n",
        "sys/kernel/gpu/gpu_busy": "37%\n", "sys/kernel/gpu/gpu_clock": "455\n",
    })  # fmt: skip
    found = phonegpu.find(tmp_path)
    assert values(found) == {"gpu_clock_hz": 455e6}
    assert reasons(found) == [
        "/sys/kernel/gpu/gpu_busy: gpu_busy_ratio is told by the GPU's driver"
    ]


def test_both_places_of_mediatek_are_one(tmp_path: Path) -> None:
    plant(tmp_path, {f"{home}/gpu_utilization": "7 0 93\n"
                     for home in (GED, "sys/kernel/debug/ged/hal")})
    found = phonegpu.find(tmp_path)
    assert [one.where for one in found.signals] == [f"/{GED}/gpu_utilization"]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("gpu_utilization", "7\n", "says '7', not three parts of the time"),
        ("gpu_utilization", "170 0 0\n", "says 170 %, more than all of the time"),
        ("current_freqency", "390000\n", "says '390000', not a number and a clock"),
        ("current_freqency", "1 9\n", "says 9, which in units of 1000 Hz is no clock"),
    ],
)
def test_other_forms(tmp_path: Path, file: str, text: str, why: str) -> None:
    found = phonegpu.find(plant(tmp_path, {f"{GED}/{file}": text}))
    assert (found.sensors, reasons(found)) == ((), [f"/{GED}/{file}: {why}"])


def test_absent(tmp_path: Path) -> None:
    assert reasons(phonegpu.find(tmp_path)) == ["no /sys/kernel/gpu, no /sys/kernel/ged/hal"]
