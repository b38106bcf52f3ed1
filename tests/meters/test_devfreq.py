"""Parts whose clock the kernel sets; trees from its documentation, none was recorded yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import devfreq, mali
from tests.meters.trees import Link, plant, reasons, signal, values

DEVFREQ = "sys/class/devfreq"


def test_a_board_of_rockchip(tmp_path: Path) -> None:
    found = devfreq.find(plant(tmp_path, {
        f"{DEVFREQ}/fb000000.gpu/cur_freq": "300000000\n",
        f"{DEVFREQ}/fb000000.gpu/load": "45@300000000Hz\n",
        f"{DEVFREQ}/dmc/cur_freq": "2112000000\n",
        f"{DEVFREQ}/dmc/load": "12@2112000000Hz\n",
    }))  # fmt: skip
    assert values(found) == {
        "fb000000_gpu_clock_hz": 300e6, "fb000000_gpu_busy_ratio": 0.45,
        "dmc_clock_hz": 2.112e9, "dmc_busy_ratio": 0.12,
    }  # fmt: skip
    assert signal(found, "dmc_busy_ratio").part == "memory"
    assert signal(found, "fb000000_gpu_busy_ratio").part == "gpu"
    assert {one.basis for one in found.signals} == {"documented"}


@pytest.mark.parametrize("linked", [True, False])
def test_a_gpu_has_one_name(tmp_path: Path, linked: bool) -> None:
    """mali0 and its devfreq node are one device, by their links or by the node's name."""
    device = "sys/devices/platform/13000000.mali"
    tree: dict[str, str] = {f"{DEVFREQ}/13000000.mali/cur_freq": "260000000\n",
                            f"{DEVFREQ}/mif/cur_freq": "1539000000\n"}
    if linked:
        tree |= {f"{device}/clock": "260\n",
                 "sys/class/misc/mali0/device": Link("../../../devices/platform/13000000.mali"),
                 f"{DEVFREQ}/13000000.mali/device": Link("../../../devices/platform/13000000.mali")}
    else:
        tree |= {"sys/class/misc/mali0/device/clock": "260\n"}
    found = devfreq.find(plant(tmp_path, tree))
    assert values(found) == {"mif_clock_hz": 1.539e9}
    assert reasons(found) == ["13000000.mali: the family mali tells of this GPU"]
    assert values(mali.find(tmp_path)) == {"gpu_clock_hz": 260e6}


def test_a_gpu_whose_family_has_no_clock_keeps_this_one(tmp_path: Path) -> None:
    plant(tmp_path, {f"{DEVFREQ}/13000000.mali/cur_freq": "260000000\n",
                     "sys/class/misc/mali0/device/utilization": "7\n"})
    assert values(devfreq.find(tmp_path)) == {"13000000_mali_clock_hz": 260e6}


def test_a_jetson_has_one_name(tmp_path: Path) -> None:
    gpu = "sys/devices/17000000.gv11b"
    plant(tmp_path, {
        f"{gpu}/load": "1\n", f"{gpu}/devfreq/17000000.gv11b/cur_freq": "1377000000\n",
        "sys/devices/gpu.0": Link("17000000.gv11b"),
        f"{DEVFREQ}/17000000.gv11b": Link("../../devices/17000000.gv11b/devfreq/17000000.gv11b"),
        f"{gpu}/devfreq/17000000.gv11b/device": Link("../.."),
    })  # fmt: skip
    found = devfreq.find(tmp_path)
    assert (found.sensors, reasons(found)) == (
        (), ["17000000.gv11b: the family nvgpu tells of this GPU"])  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("load", "437\n", "says '437', in a unit that only its driver knows"),
        ("load", "437@1Hz\n", "says 437 %, more than all of the time"),
        ("cur_freq", "7980\n", "says 7980, which in units of 1 Hz is no clock"),  # MB/s
    ],
)
def test_other_units(tmp_path: Path, file: str, text: str, why: str) -> None:
    found = devfreq.find(plant(tmp_path, {f"{DEVFREQ}/cpubw/{file}": text}))
    assert reasons(found) == [f"/{DEVFREQ}/cpubw/{file}: {why}"]


def test_names_that_become_equal_stay_apart(tmp_path: Path) -> None:
    plant(tmp_path, {f"{DEVFREQ}/{name}/cur_freq": "200000000\n" for name in ("a-gpu", "a.gpu")})
    assert set(values(devfreq.find(tmp_path))) == {"a_gpu_clock_hz", "a_gpu_2_clock_hz"}


def test_absent(tmp_path: Path) -> None:
    assert reasons(devfreq.find(tmp_path)) == [f"no /{DEVFREQ}"]
    plant(tmp_path, {f"{DEVFREQ}/x/governor": "simple_ondemand\n"})
    assert reasons(devfreq.find(tmp_path)) == [f"/{DEVFREQ} has no part with a clock"]
