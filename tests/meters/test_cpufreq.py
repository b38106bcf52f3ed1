"""Clocks of cores, times at each, cores that are on."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import cpufreq
from handtorch.meters.procfs import TICKS_PER_S
from handtorch.meters.reading import FileSensor
from handtorch.meters.signal import MEDIUM_NS
from tests.meters.trees import Link, closed, plant, reasons, recorded, signal, values

CPU = "sys/devices/system/cpu"
BIG_LITTLE = {
    f"{CPU}/online": "0-5\n",
    f"{CPU}/cpufreq/policy0/related_cpus": "0 1 2 3\n",
    f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1036800\n",
    f"{CPU}/cpufreq/policy0/stats/time_in_state": "300000 200\n1036800 50\n",
    f"{CPU}/cpufreq/policy4/related_cpus": "4 5\n",
    f"{CPU}/cpufreq/policy4/scaling_cur_freq": "2419200\n",
    **{f"{CPU}/cpu{core}/cpufreq": Link(f"../cpufreq/policy{core // 4 * 4}") for core in range(6)},
}


def test_each_cluster_is_read_once_for_all_its_cores(tmp_path: Path) -> None:
    found = cpufreq.find(plant(tmp_path, BIG_LITTLE))
    told = values(found)
    assert told == {
        **{f"cpu{core}_clock_hz": 1.0368e9 for core in range(4)},
        "cpu4_clock_hz": 2.4192e9, "cpu5_clock_hz": 2.4192e9,
        "cpu0_at_300000khz_s": 200 / TICKS_PER_S, "cpu0_at_1036800khz_s": 50 / TICKS_PER_S,
        "cores_online_count": 6.0,
    }  # fmt: skip
    clocks = found.sensors[0]
    assert isinstance(clocks, FileSensor) and len(clocks.entries) == 2
    assert signal(found, "cpu5_clock_hz").kind == "gauge"
    assert signal(found, "cpu5_clock_hz").every_ns == MEDIUM_NS
    assert signal(found, "cpu0_at_300000khz_s").kind == "counter"
    assert signal(found, "cpu0_at_300000khz_s").part == "cpu0-3"
    assert reasons(found) == [
        f"no /{CPU}/cpufreq/policy4/stats/time_in_state, of 1 clocks"
    ]


def test_a_recorded_tree(shared: Path, tmp_path: Path) -> None:
    tree = recorded(shared / "data/logs/sysfs_cpufreq_procfs.tsv")
    assert len(tree) == 27
    found = cpufreq.find(plant(tmp_path, tree))
    told = values(found)
    assert told == {
        "cpu0_clock_hz": 1219917e3,             # scaling_cur_freq of a policy
        "cpu1_clock_hz": 1200195e3,             # cpuinfo_cur_freq of a core: the only one there
        "cpu1_at_3600000khz_s": pytest.approx(20.89), "cpu1_at_3400000khz_s": pytest.approx(1.36),
        "cpu1_at_3200000khz_s": pytest.approx(0.34), "cpu1_at_3000000khz_s": pytest.approx(0.67),
        "cpu1_at_2800000khz_s": pytest.approx(1724.88),
    }  # fmt: skip
    assert {one.part for one in found.signals} == {"cpu0", "cpu1"}
    assert reasons(found) == [
        f"no /{CPU}/cpufreq/policy0/stats/time_in_state, of 1 clocks",
        f"/{CPU}/online: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<unsupported>\n", "says '<unsupported>', not a whole number"),
        ("7\n", "says 7, which in units of 1000 Hz is no clock"),
        ("-1\n", "says -1, which in units of 1000 Hz is no clock"),
    ],
)
def test_a_clock_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    name = f"{CPU}/cpufreq/policy0/scaling_cur_freq"
    found = cpufreq.find(plant(tmp_path, BIG_LITTLE | {name: text}))
    assert f"/{name}: {why}" in reasons(found)
    assert "cpu0_clock_hz" not in values(found) and "cpu4_clock_hz" in values(found)


def test_a_clock_that_stands_is_no_zero(tmp_path: Path) -> None:
    plant(tmp_path, BIG_LITTLE | {f"{CPU}/cpufreq/policy4/scaling_cur_freq": "0\n"})
    assert values(cpufreq.find(tmp_path))["cpu5_clock_hz"] == "the clock is off"


def test_a_frequency_that_leaves_the_table(tmp_path: Path) -> None:
    table = f"{CPU}/cpufreq/policy0/stats/time_in_state"
    found = cpufreq.find(plant(tmp_path, BIG_LITTLE))
    plant(tmp_path, {table: "300000 201\n"})
    told = values(found)
    assert told["cpu0_at_300000khz_s"] == 201 / TICKS_PER_S
    assert told["cpu0_at_1036800khz_s"] == "no longer lists 1036800 kHz"


def test_a_closed_file_leaves_the_next_one(tmp_path: Path) -> None:
    """Two ways to ask for the clock; the first that can be read is taken."""
    policy = f"{CPU}/cpufreq/policy0"
    plant(tmp_path, BIG_LITTLE | {f"{policy}/cpuinfo_cur_freq": "1036799\n"})
    with closed(tmp_path, f"{policy}/scaling_cur_freq") as root:
        assert values(cpufreq.find(root))["cpu0_clock_hz"] == 1036799e3


def test_a_machine_without_clocks(tmp_path: Path) -> None:
    plant(tmp_path, {f"{CPU}/online": "0\n", f"{CPU}/cpufreq/policy0/affected_cpus": "0\n"})
    assert reasons(cpufreq.find(tmp_path))[0] == f"/{CPU}/cpufreq/policy0 tells no frequency"
    found = cpufreq.find(plant(tmp_path / "b", {f"{CPU}/online": "\n"}))
    assert reasons(found) == [
        f"no core has /{CPU}/cpuN/cpufreq: its clock is not ours to see",
        f"/{CPU}/online: names no core, though one reads it",
    ]
