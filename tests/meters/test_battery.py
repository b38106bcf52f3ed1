from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters import battery
from tests.meters.power_trees import answers, by_name, close, deny, plant, plant_tsv, values, why

POWER = "sys/class/power_supply"
FIX = "unplug the machine while it is measured"


def phone(**files: object) -> dict[str, object]:
    """As an Android phone has it, by the kernel's documentation."""
    base = {
        "type": "Battery", "status": "Discharging", "current_now": -312000, "voltage_now": 4000000,
        "charge_counter": 2500000, "temp": 318, "capacity": 81,
    }  # fmt: skip
    named = {f"{POWER}/battery/{name}": value for name, value in (base | files).items()}
    return named | {f"{POWER}/usb/type": "USB", f"{POWER}/usb/online": 0}


def test_the_captured_laptop(tmp_path: Path, shared: Path) -> None:
    plant_tsv(tmp_path, shared / "data" / "logs" / "sysfs_power_supply_bat0.tsv")
    found = battery.find(tmp_path)
    assert values(found) == {
        "bat0_power_w": 5.002, "bat0_drawn_energy_j": 0.0, "bat0_voltage_v": 11.66,
        "bat0_charge_ratio": 0.81,
    }  # fmt: skip
    plant(tmp_path, {f"{POWER}/BAT0/energy_now": 36570000})
    assert values(found)["bat0_drawn_energy_j"] == pytest.approx(36.0)      # 10 mWh
    names = by_name(found)
    assert {name: (s.kind, s.basis) for name, s in names.items()} == {
        "bat0_power_w": ("instant", "captured"), "bat0_drawn_energy_j": ("counter", "captured"),
        "bat0_voltage_v": ("gauge", "captured"), "bat0_charge_ratio": ("gauge", "captured"),
    }  # fmt: skip
    assert names["bat0_power_w"].where == f"/{POWER}/BAT0/power_now"
    assert found.absent == ()
    close(found)


@pytest.mark.parametrize(
    ("files", "watts", "said"),
    [
        ({}, 1.248, []),
        ({"current_now": 312000}, 1.248, []),
        ({"current_now": -312}, 1.248,
         ["battery: current_now is taken as mA: as uA it would be less than 15 mA"]),
        ({"voltage_now": 4000}, 1.248, []),
        ({"current_now": 0}, "current_now is 0 while it discharges", []),
        ({"current_now": "?"}, "says '?', not a whole number", []),
        ({"voltage_now": 0}, "voltage: voltage_now is 0", []),
        ({"voltage_now": "?"}, "voltage: says '?', not a whole number", []),
        ({"power_now": -1500000}, 1.5, []),
        ({"power_now": 0}, "power_now is 0 while it discharges", []),
    ],
)  # fmt: skip
def test_signs_and_units_of_phones(
    tmp_path: Path, files: dict[str, object], watts: float | str, said: list[str]
) -> None:
    plant(tmp_path, phone(**files))
    found = battery.find(tmp_path)
    assert values(found)["battery_power_w"] == pytest.approx(watts)
    assert values(found)["battery_temp_c"] == 31.8
    assert why(found) == said
    close(found)


def test_milliamperes_are_given_up_when_a_current_is_too_large_for_them(tmp_path: Path) -> None:
    plant(tmp_path, phone(current_now=-9000))
    found = battery.find(tmp_path)
    assert values(found)["battery_power_w"] == 36.0
    plant(tmp_path, phone(current_now=-300000))
    assert values(found)["battery_power_w"] == pytest.approx(1.2)
    plant(tmp_path, phone(current_now=-9000))
    assert values(found)["battery_power_w"] == pytest.approx(0.036)
    close(found)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({f"{POWER}/usb/online": 1}, "usb gives power: the battery's is not what the machine uses"),
        ({f"{POWER}/battery/status": "Charging"},
         "its status is 'Charging': its power is not what the machine uses"),
        ({f"{POWER}/battery/status": "Full"},
         "its status is 'Full': its power is not what the machine uses"),
        ({f"{POWER}/battery/status": None}, "its status: Is a directory"),
    ],
)  # fmt: skip
def test_a_charging_battery_says_nothing_of_use(
    tmp_path: Path, files: dict[str, object], said: str
) -> None:
    plant(tmp_path, phone() | files)
    found = battery.find(tmp_path)
    got = values(found)
    assert got["battery_power_w"] == got["battery_drawn_energy_j"] == said
    assert got["battery_voltage_v"] == 4.0
    assert why(found) == [f"battery: {said}"] and found.absent[0].fix == FIX
    close(found)


def test_no_status_is_not_taken_for_discharging(tmp_path: Path) -> None:
    files = phone()
    del files[f"{POWER}/battery/status"]
    found = battery.find(plant(tmp_path, files))
    assert values(found)["battery_power_w"] == "no status: it may be charging"
    close(found)


def test_drawn_energy_leaves_out_the_time_it_was_charged(tmp_path: Path) -> None:
    plant(tmp_path, phone(charge_counter=2500000))
    found = battery.find(tmp_path)

    def after(**files: object) -> float | str:
        plant(tmp_path, phone(**files))
        return values(found)["battery_drawn_energy_j"]

    assert after(charge_counter=2500000) == 0.0
    drawn = after(charge_counter=2499000)
    assert drawn == pytest.approx(0.001 * 3600 * 4)                 # 1 mAh at 4 V
    assert isinstance(after(charge_counter=2600000, status="Charging"), str)
    assert after(charge_counter=2700000) == drawn
    assert after(charge_counter=2699000) == pytest.approx(2 * 14.4)
    assert after(charge_counter=2698000, voltage_now=3000000) == pytest.approx(2 * 14.4 + 12.6)
    close(found)


def test_batteries_that_are_not_the_machines(tmp_path: Path) -> None:
    plant(tmp_path, {
        f"{POWER}/hid/type": "Battery", f"{POWER}/hid/scope": "Device",
        f"{POWER}/BAT1/type": "Battery", f"{POWER}/BAT1/present": 0,
        f"{POWER}/BAT2/capacity": 50,
    })  # fmt: skip
    found = battery.find(tmp_path)
    assert why(found) == [
        "BAT1: no battery is in its place",
        "BAT2: no power_now, and no current_now with a voltage_now",
        "hid: the battery of a device that is attached",
    ]
    assert values(found) == {"bat2_charge_ratio": 0.5}
    close(found)


def test_a_refused_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, phone())
    deny(monkeypatch, "battery/current_now")
    found = battery.find(tmp_path)
    assert why(found) == [
        f"/{POWER}/battery/current_now: Permission denied",
        "battery: no power_now, and no current_now with a voltage_now",
    ]
    assert found.absent[0].fix == f"run as root, or make /{POWER}/battery/current_now readable"
    assert "battery_power_w" not in by_name(found)
    close(found)


def test_a_gauge_that_failed_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = battery.find(plant(tmp_path, phone()))
    with monkeypatch.context() as gone:
        gone.setattr(os, "pread", answers(errno.ENODEV))
        assert values(found)["battery_power_w"] == "its status: No such device"
    (tmp_path / POWER / "battery").rename(tmp_path / "old")
    plant(tmp_path, phone(voltage_now=3000000))
    assert values(found)["battery_power_w"] == pytest.approx(0.936)
    close(found)


def test_no_battery(tmp_path: Path) -> None:
    plant(tmp_path, {f"{POWER}/AC/type": "Mains", f"{POWER}/AC/online": 1})
    found = battery.find(tmp_path)
    assert (found.sensors, why(found)) == ((), [f"/{POWER} has no battery"])


LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.integers(-10**9, 10**9).map(str)


@settings(deadline=None)         # a file system may be slow for a moment
@given(
    st.dictionaries(st.sampled_from(battery._FILES), LINE | NUMBER),
    st.sampled_from(["Discharging", "Charging", "Unknown"]),
)
def test_garbage_never_raises(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], status: str
) -> None:
    root = tmp_path_factory.mktemp("sys")
    plant(root, {f"{POWER}/BAT0/{name}": value for name, value in files.items()})
    plant(root, {f"{POWER}/BAT0/type": "Battery", f"{POWER}/BAT0/status": status})
    found = battery.find(root)
    for name, value in values(found).items():
        assert value != 0 or not name.endswith("power_w")
        if status != "Discharging" and name.endswith(("power_w", "energy_j")):
            assert isinstance(value, str)
    close(found)
