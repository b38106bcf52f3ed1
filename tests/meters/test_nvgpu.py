"""The GPU of a Jetson; trees from the driver's source, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import nvgpu
from tests.meters.trees import Link, plant, reasons, signal, values

XAVIER = "sys/devices/17000000.gv11b"


@pytest.mark.parametrize(
    "link",
    [
        {"sys/devices/gpu.0": Link("17000000.gv11b")},
        {"sys/devices/platform/gpu.0": Link("../17000000.gv11b")},
        {"sys/class/devfreq/17000000.gv11b/device": Link("../../../devices/17000000.gv11b")},
    ],
)
def test_per_mille_under_each_of_its_names(tmp_path: Path, link: dict[str, str]) -> None:
    plant(tmp_path, {f"{XAVIER}/load": "437\n",
                     f"{XAVIER}/devfreq/17000000.gv11b/cur_freq": "1377000000\n"} | link)
    found = nvgpu.find(tmp_path)
    assert values(found) == {"gpu_busy_ratio": 0.437, "gpu_clock_hz": 1.377e9}
    assert signal(found, "gpu_busy_ratio").basis == "documented"
    assert [sensor.waits for sensor in found.sensors] == [True, False]


def test_more_than_all_of_the_time(tmp_path: Path) -> None:
    found = nvgpu.find(plant(tmp_path, {"sys/devices/gpu.0/load": "1001\n"}))
    assert reasons(found) == [
        "/sys/devices/gpu.0/load: says 1001 thousandths, more than all of the time",
        "/sys/devices/gpu.0 has no devfreq/*/cur_freq",
    ]


def test_absent(tmp_path: Path) -> None:
    """A mainline GPU called like a Jetson's has no `load` beside its device."""
    plant(tmp_path, {"sys/class/devfreq/ff9a0000.gpu/cur_freq": "200000000\n"})
    assert reasons(nvgpu.find(tmp_path)) == [
        "no gpu.0/load, nor one beside a Jetson's GPU in /sys/class/devfreq"
    ]
