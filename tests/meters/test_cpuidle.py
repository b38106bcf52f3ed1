"""Idle states, and when they are not to be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.meters import cpuidle
from tests.meters.trees import plant, reasons, signal, values

CPU = "sys/devices/system/cpu"
TREE = {
    "proc/uptime": "100.00 150.00\n",
    f"{CPU}/cpuidle/current_driver": "psci_idle\n",
    f"{CPU}/cpu0/cpuidle/state0/name": "WFI\n",
    f"{CPU}/cpu0/cpuidle/state0/time": "60000000\n",
    f"{CPU}/cpu0/cpuidle/state1/name": "cpu-sleep-0\n",
    f"{CPU}/cpu0/cpuidle/state1/time": "30000000\n",
    f"{CPU}/cpu1/cpuidle/state0/name": "WFI\n",
    f"{CPU}/cpu1/cpuidle/state0/time": "5\n",
}


def test_seconds_in_each_state(tmp_path: Path) -> None:
    found = cpuidle.find(plant(tmp_path, TREE))
    assert values(found) == pytest.approx({
        "cpu0_state0_wfi_s": 60.0, "cpu0_state1_cpu_sleep_0_s": 30.0, "cpu1_state0_wfi_s": 5e-6,
    })  # fmt: skip
    assert (signal(found, "cpu1_state0_wfi_s").kind, found.absent) == ("counter", ())


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (
            {f"{CPU}/cpuidle/current_driver": "haltpoll\n"},
            "the idle driver is haltpoll: a virtual machine, whose host decides on idle states",
        ),
        (
            {"proc/cpuinfo": "processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n"},
            "a virtual machine: its host decides on idle states, these counts are the guest's",
        ),
        (
            {"sys/hypervisor/type": "xen\n"},
            "a virtual machine: its host decides on idle states, these counts are the guest's",
        ),
        ({"proc/uptime": "80.00 10.00\n"}, "cpu0 says it was idle for 90 s of 80 s"),
        (
            {name: "0\n" for name in TREE if name.endswith("time") and "cpuidle" in name},
            "no core was ever idle, it says: nobody counts here",
        ),
    ],
)
def test_counts_that_are_not_to_be_believed(
    tmp_path: Path, files: dict[str, str], why: str
) -> None:
    found = cpuidle.find(plant(tmp_path, TREE | files))
    assert (found.sensors, reasons(found)) == ((), [why])


def test_one_broken_file_leaves_the_others(tmp_path: Path) -> None:
    name = f"{CPU}/cpu1/cpuidle/state0/time"
    found = cpuidle.find(plant(tmp_path, TREE | {name: "?\n"}))
    assert reasons(found) == [f"/{name}: says '?', not a whole number"]
    assert len(values(found)) == 2


def test_a_machine_without(tmp_path: Path) -> None:
    assert reasons(cpuidle.find(tmp_path)) == [f"no /{CPU}"]
    plant(tmp_path, {f"{CPU}/cpu0/online": "1\n"})
    assert reasons(cpuidle.find(tmp_path)) == [f"/{CPU} has no cpuN/cpuidle"]
