"""Temperatures of zones."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import thermal
from handtorch.meters.signal import SLOW_NS
from tests.meters.trees import plant, reasons, recorded, signal, values


def zones(*pairs: tuple[str, str]) -> dict[str, str]:
    return {
        f"sys/class/thermal/thermal_zone{at}/{file}": f"{text}\n"
        for at, pair in enumerate(pairs)
        for file, text in zip(("type", "temp"), pair, strict=True)
    }


def test_a_recorded_tree(shared: Path, tmp_path: Path) -> None:
    tree = recorded(shared / "data/logs/sysfs_thermal_procfs.tsv")
    assert len(tree) == 8
    found = thermal.find(plant(tmp_path, tree))
    assert values(found) == {"bcm2835_thermal_c": 49.925, "acpitz_c": -44.0}
    assert signal(found, "acpitz_c").kind == "gauge" and found.absent == ()


def test_names_and_parts(tmp_path: Path) -> None:
    found = thermal.find(plant(tmp_path, zones(
        ("CPU-therm", "44125"), ("GPU-therm", "43000"), ("acpitz", "27800"), ("acpitz", "29800"),
        ("acpitz zone3", "31000"), ("ddr-usr", "40000"), ("x86_pkg_temp", "50000"),
    )))  # fmt: skip
    assert values(found) == {
        "cpu_therm_c": 44.125, "gpu_therm_c": 43.0, "acpitz_zone2_c": 27.8, "acpitz_zone3_c": 29.8,
        "acpitz_zone3_2_c": 31.0, "ddr_usr_c": 40.0, "x86_pkg_temp_c": 50.0,
    }  # fmt: skip
    assert [one.part for one in found.signals] == [
        "cpu", "gpu", "machine", "machine", "machine", "memory", "cpu"]  # fmt: skip
    assert found.sensors[0].waits and found.signals[0].every_ns == SLOW_NS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-256000", "powered off"),             # Jetson Orin: an engine without power
        ("45", "says 45: in thousandths of a degree that is no working machine"),
        ("0", "says 0: in thousandths of a degree that is no working machine"),
        ("-274000", "-274 C is no temperature of a working machine"),
        ("2147483647", "2.14748e+06 C is no temperature of a working machine"),
    ],
)
def test_what_is_no_temperature_has_a_reason(tmp_path: Path, text: str, why: str) -> None:
    """The zone stays: an engine that is off may be switched on during the run."""
    (sensor,) = thermal.find(plant(tmp_path, zones(("cv0", text)))).sensors
    assert sensor.read() == [why]
    plant(tmp_path, zones(("cv0", "50500")))
    assert sensor.read() == [50.5]
    sensor.close()


def test_limits() -> None:
    assert [thermal.celsius(text) for text in ("-60000", "1000", "200000")] == [-60.0, 1.0, 200.0]


def test_a_zone_without_a_readable_temperature(tmp_path: Path) -> None:
    plant(tmp_path, zones(("a", "50000"), ("b", "n/a")))
    plant(tmp_path, {"sys/class/thermal/thermal_zone2/type": "c\n"})
    found = thermal.find(tmp_path)
    assert reasons(found) == [
        "/sys/class/thermal/thermal_zone1/temp: says 'n/a', not a whole number",
        "/sys/class/thermal/thermal_zone2/temp: No such file or directory",
    ]
    assert values(found) == {"a_c": 50.0}


def test_no_zone(tmp_path: Path) -> None:
    assert reasons(thermal.find(tmp_path)) == ["no /sys/class/thermal"]
    plant(tmp_path, {"sys/class/thermal/cooling_device0/type": "Fan\n"})
    assert reasons(thermal.find(tmp_path)) == ["/sys/class/thermal has no zone"]
