"""All families together: on this machine, and on images with anything at all in their files."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters.search import FAMILIES, OF_A_PROCESS, find_all
from handtorch.meters.signal import Found
from tests.meters import (
    test_cpufreq,
    test_cpuidle,
    test_fdinfo,
    test_kgsl,
    test_procfs,
    test_schedstat,
    test_thermal,
    test_threads,
)
from tests.meters.trees import plant, recorded, values

EVERYTHING = {
    **test_cpufreq.BIG_LITTLE, **test_cpuidle.TREE, **test_kgsl.TREE, **test_threads.TREE,
    **test_thermal.zones(("cpu-therm", "44125"), ("gpu-therm", "-256000")),
    "proc/stat": test_procfs.STAT, "proc/meminfo": test_procfs.MEMORY,
    "proc/schedstat": test_schedstat.TEXT,
    "sys/class/misc/mali0/device/utilization": "37\n", "sys/class/misc/mali0/device/clock": "260\n",
    "sys/devices/gpu.0/load": "437\n", "sys/devices/gpu.0/devfreq/x/cur_freq": "1377000000\n",
    "sys/kernel/ged/hal/gpu_utilization": "7 0 93\n", "sys/kernel/gpu/gpu_clock": "455\n",
    "sys/class/devfreq/dmc/cur_freq": "2112000000\n", "sys/class/devfreq/dmc/load": "12@2112Hz\n",
    "sys/class/drm/card0/device/gpu_busy_percent": "99\n",
    "proc/42/fdinfo/5": test_fdinfo.PANFROST,
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "240422366267\n",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
    "sys/class/hwmon/hwmon0/name": "k10temp\n", "sys/class/hwmon/hwmon0/temp1_input": "43850\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/BAT0/power_now": "5002000\n",
}  # fmt: skip
del EVERYTHING[f"{test_cpufreq.CPU}/cpu0/cpufreq"], EVERYTHING[f"{test_cpufreq.CPU}/cpu1/cpufreq"]
FILES = sorted(name for name in EVERYTHING if type(EVERYTHING[name]) is str)
CONTENT = st.binary(max_size=40) | st.sampled_from(
    [b"", b"0", b"-1", b"0 0\n", b"9" * 19, b"9" * 400, b"1 2 3\n", b"<unknown>", b"\xff\xfe\n"]
)


def names(found: Found) -> list[tuple[str, str]]:
    return [(signal.meter, signal.quantity) for signal in found.signals]


def sound(found: Found) -> None:
    """Every name once, and every value a finite number or a reason."""
    assert len(set(names(found))) == len(names(found))
    assert all(absent.meter and absent.why for absent in found.absent)
    for sensor in found.sensors:
        for value in sensor.read():
            assert value if isinstance(value, str) else math.isfinite(value)
        sensor.close()


def test_everything_is_found_at_once(tmp_path: Path) -> None:
    found = find_all(plant(tmp_path, EVERYTHING), 42)
    sound(found)
    assert {meter for meter, _ in names(found)} == {
        "procfs", "schedstat", "cpufreq", "cpuidle", "thermal", "kgsl", "mali", "nvgpu", "devfreq",
        "drm", "threads", "fdinfo", "rapl", "hwmon", "battery",
    }  # fmt: skip
    assert {absent.meter for absent in found.absent} == {
        "cpufreq", "phonegpu", "threads", "ina3221", "tegrastats", "nvml"}


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(FILES), CONTENT, min_size=1), st.booleans())
def test_anything_in_any_file_gives_a_value_or_a_reason(
    broken: dict[str, bytes], from_the_start: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = plant(Path(folder), EVERYTHING)
        found = None if from_the_start else find_all(root, 42)
        for name, content in broken.items():
            (root / name).write_bytes(content)
        sound(found or find_all(root, 42))


def test_an_empty_image_gives_a_reason_for_each_family(tmp_path: Path) -> None:
    found = find_all(tmp_path)
    assert found.sensors == ()
    assert len({absent.meter for absent in found.absent}) == len(FAMILIES) + len(OF_A_PROCESS)
    assert {absent.why for absent in found.absent if absent.meter in OF_A_PROCESS} == {
        "no process is watched"}  # fmt: skip


@pytest.mark.parametrize("log", ["sysfs_cpufreq_procfs", "sysfs_thermal_procfs"])
def test_recorded_trees(shared: Path, tmp_path: Path, log: str) -> None:
    found = find_all(plant(tmp_path, recorded(shared / f"data/logs/{log}.tsv")), 42)
    sound(found)
    assert {signal.meter for signal in found.signals} == {log.split("_")[1]}
    assert {signal.basis for signal in found.signals} == {"captured"}


def test_this_machine() -> None:
    found = find_all(Path("/"), os.getpid())
    sound(found)
    told = values(find_all(Path("/"), os.getpid()))
    for name in ("cpu0_busy_s", "memory_available_bytes", "process_busy_s"):
        assert isinstance(told[name], float), told[name]
