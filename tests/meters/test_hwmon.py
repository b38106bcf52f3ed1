from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters import hwmon
from tests.meters.power_trees import answers, by_name, close, deny, plant, plant_tsv, values, why

CHIP = "sys/class/hwmon/hwmon"


def test_every_reading_of_the_captured_tree(tmp_path: Path, shared: Path) -> None:
    """The listing has no links: each folder of /sys/devices gets one, under a number of its own."""
    paths = plant_tsv(tmp_path, shared / "data" / "logs" / "sysfs_hwmon_node_exporter.tsv")
    away = sorted({str(Path(path).parent) for path in paths if path.startswith("sys/devices")})
    for number, folder in enumerate(away, 20):
        (tmp_path / f"{CHIP}{number}").symlink_to(tmp_path / folder)
    found = hwmon.find(tmp_path)
    got = values(found)
    inputs = [path for path in paths if re.fullmatch(r"(temp|in)\d+_input", Path(path).name)]
    assert len(got) == len(inputs) == len(by_name(found)) == 22
    assert found.absent == ()
    assert got["coretemp_0_physical_id_0_temp_c"] == 55.0
    assert got["coretemp_1_core_3_temp_c"] == 50.0
    assert got["nvme0_composite_temp_c"] == 43.85
    assert got["hwmon4_foosensor_1_temp_c"] == 55.0
    assert got["hwmon4_foosensor_2_temp_c"] == 54.0
    assert got["nct6775_656_in0_voltage_v"] == 0.792
    assert {got[f"phy0_{n}_temp1_temp_c"] for n in (1, 2, 3)} == {55.0, 56.0, 57.0}
    core = by_name(found)["coretemp_0_core_0_temp_c"]
    assert (core.kind, core.part, core.basis) == ("gauge", "cpu", "captured")
    close(found)


def test_power_energy_and_their_units(tmp_path: Path) -> None:
    plant(tmp_path, {
        f"{CHIP}0/name": "amdgpu", f"{CHIP}0/power1_average": 12000000,
        f"{CHIP}0/power1_label": "PPT",
        f"{CHIP}1/name": "amd_energy", f"{CHIP}1/energy1_input": 5000000,
        f"{CHIP}1/energy1_label": "Esocket0",
        f"{CHIP}2/name": "power_meter", f"{CHIP}2/power1_average": 250000000,
        f"{CHIP}2/power1_average_interval": 300000,
        f"{CHIP}3/name": "ina238", f"{CHIP}3/power1_input": 1500000, f"{CHIP}3/power1_average": 1,
        f"{CHIP}3/curr1_input": 300,
    })  # fmt: skip
    found = hwmon.find(tmp_path)
    assert values(found) == {
        "amdgpu_ppt_power_w": 12.0, "amd_energy_esocket0_energy_j": 5.0,
        "power_meter_power1_power_w": 250.0, "ina238_power1_power_w": 1.5,
        "ina238_curr1_current_a": 0.3,
    }  # fmt: skip
    names = by_name(found)
    assert {name: (s.kind, s.part) for name, s in names.items()} == {
        "amdgpu_ppt_power_w": ("window", "gpu"), "amd_energy_esocket0_energy_j": ("counter", "cpu"),
        "power_meter_power1_power_w": ("window", "machine"),
        "ina238_power1_power_w": ("instant", "ina238"),
        "ina238_curr1_current_a": ("instant", "ina238"),
    }  # fmt: skip
    assert names["power_meter_power1_power_w"].span_ns == 300 * 10**9
    assert {s.basis for s in names.values()} == {"documented"}
    assert why(found) == ["ina238 power1_average: power1_input is the same rail"]
    assert all(sensor.waits for sensor in found.sensors)
    for sensor in found.sensors:
        assert len({signal.every_ns for signal in sensor.signals}) == 1
    close(found)


def test_a_current_and_a_voltage_of_one_label_are_a_power(tmp_path: Path) -> None:
    plant(tmp_path, {
        f"{CHIP}0/name": "ltc", f"{CHIP}0/curr1_input": 2000, f"{CHIP}0/curr1_label": "VDD CPU",
        f"{CHIP}0/in3_input": 900, f"{CHIP}0/in3_label": "VDD CPU",
        f"{CHIP}0/curr2_input": 7, f"{CHIP}0/in2_input": 12000,
    })  # fmt: skip
    found = hwmon.find(tmp_path)
    assert values(found) == {
        "ltc_vdd_cpu_power_w": 1.8, "ltc_curr2_current_a": 0.007, "ltc_in2_voltage_v": 12.0,
    }  # fmt: skip
    plant(tmp_path, {f"{CHIP}0/curr1_input": ""})
    assert values(found)["ltc_vdd_cpu_power_w"] == "current: is empty"
    plant(tmp_path, {f"{CHIP}0/curr1_input": 1, f"{CHIP}0/in3_input": ""})
    assert values(found)["ltc_vdd_cpu_power_w"] == "voltage: is empty"
    close(found)


def test_a_rail_with_a_power_of_its_own_is_not_multiplied(tmp_path: Path) -> None:
    files = {"curr1": 2000, "in1": 900, "power1": 1700000}
    plant(tmp_path, {f"{CHIP}0/name": "ina238"} | {
        f"{CHIP}0/{name}_{end}": value for name, number in files.items()
        for end, value in (("input", number), ("label", "VIN"))
    })  # fmt: skip
    found = hwmon.find(tmp_path)
    assert values(found) == {
        "ina238_vin_power_w": 1.7, "ina238_vin_current_a": 2.0, "ina238_vin_voltage_v": 0.9,
    }  # fmt: skip
    close(found)


def test_other_families_chips_are_left_to_them(tmp_path: Path) -> None:
    plant(tmp_path, {
        f"{CHIP}0/name": "ina3221", f"{CHIP}0/curr1_input": 5,
        f"{CHIP}1/name": "BAT0", f"{CHIP}1/in0_input": 5, f"{CHIP}1/device/type": "Battery",
    })  # fmt: skip
    found = hwmon.find(tmp_path)
    assert found.sensors == ()
    assert why(found) == [
        "hwmon0 (ina3221): read as rails of a Jetson", "hwmon1 (BAT0): read as a battery",
    ]  # fmt: skip


def test_files_of_old_kernels_lie_in_the_device(tmp_path: Path) -> None:
    plant(tmp_path, {f"{CHIP}0/device/name": "k10temp", f"{CHIP}0/device/temp1_input": 40000})
    found = hwmon.find(tmp_path)
    assert values(found) == {"k10temp_temp1_temp_c": 40.0}
    close(found)


def test_a_part_that_is_switched_off_has_no_temperature(tmp_path: Path) -> None:
    plant(tmp_path, {f"{CHIP}0/name": "cv0", f"{CHIP}0/temp1_input": -256000})
    found = hwmon.find(tmp_path)
    assert values(found) == {"cv0_temp1_temp_c": "powered off"}
    close(found)


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {
        f"{CHIP}0/name": "a", f"{CHIP}0/temp1_input": "N/A", f"{CHIP}0/power1_input": 5,
    })  # fmt: skip
    deny(monkeypatch, "power1_input")
    found = hwmon.find(tmp_path)
    assert found.sensors == ()
    assert why(found) == [
        f"/{CHIP}0/power1_input: Permission denied",
        f"/{CHIP}0/temp1_input: says 'N/A', not a whole number",
    ]
    assert found.absent[0].fix == f"run as root, or make /{CHIP}0/power1_input readable"


def test_a_chip_that_is_asleep_keeps_its_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {f"{CHIP}0/power1_input": 5000000})
    with monkeypatch.context() as asleep:
        asleep.setattr(os, "pread", answers(errno.ENODATA))
        found = hwmon.find(tmp_path)
        assert values(found) == {"hwmon0_power1_power_w": "No data available"}
    assert (values(found), found.absent) == ({"hwmon0_power1_power_w": 5.0}, ())
    close(found)


def test_no_chip(tmp_path: Path) -> None:
    assert why(hwmon.find(tmp_path)) == ["no /sys/class/hwmon"]
    plant(tmp_path, {f"{CHIP}0/name": "fan"})
    assert why(hwmon.find(tmp_path)) == ["/sys/class/hwmon has no chip with a sensor"]


LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(deadline=None)         # a file system may be slow for a moment
@given(st.dictionaries(st.sampled_from([
    "name", "temp1_input", "temp1_label", "in1_input", "in1_label", "curr1_input", "curr1_label",
    "power1_input", "power1_average", "power1_average_interval", "energy1_input",
]), LINE | st.integers().map(str)))  # fmt: skip
def test_garbage_never_raises(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("sys")
    plant(root, {f"{CHIP}0/{name}": value for name, value in files.items()})
    found = hwmon.find(root)
    assert len(values(found)) == len(found.signals)
    assert found.sensors or found.absent
    close(found)
