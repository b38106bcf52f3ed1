from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import handtorch as ht
from handtorch.errors import BadInput


class Phone:
    """A tree of files with one zone and one battery, and a clock that is set by hand."""

    def __init__(self, root: Path) -> None:
        self.zone = root / "sys/class/thermal/thermal_zone0"
        self.battery = root / "sys/class/power_supply/battery"
        self.time = 0.0
        for folder, files in ((self.zone, {"type": "soc", "temp": "40000"}),
                              (self.battery, {"type": "Battery", "status": "Discharging",
                                              "capacity": "80"})):
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(f"{text}\n")

    def says(self, limits: ht.Limits, *, temp: int | None = None, capacity: int | None = None,
             after_s: float = 1.0) -> bool:
        if temp is not None:
            (self.zone / "temp").write_text(f"{temp}\n")
        if capacity is not None:
            (self.battery / "capacity").write_text(f"{capacity}\n")
        self.time += after_s
        return limits()


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    monkeypatch.setenv("HANDTORCH_SENSORS", str(tmp_path))
    return Phone(tmp_path)


def limits(phone: Phone, **given: Any) -> ht.Limits:
    return ht.Limits(**given, now=lambda: phone.time)


def test_it_rests_while_hot_and_until_it_is_cooler(phone: Phone) -> None:
    hot = limits(phone, temperature_c=70)
    assert not phone.says(hot) and hot.why == ""
    assert phone.says(hot, temp=70500)
    assert hot.why == "soc is at 70.5 C, and 70 C is the limit"
    assert phone.says(hot, temp=68000)
    assert hot.why == "soc is at 68.0 C, and 67 C is the limit"
    assert not phone.says(hot, temp=66900)
    assert not phone.says(hot, temp=69900)


def test_it_rests_while_the_battery_is_low(phone: Phone) -> None:
    low = limits(phone, battery=0.2, temperature_c=70)
    assert not phone.says(low)
    assert phone.says(low, capacity=19)
    assert low.why == "battery holds 19 %, and 20 % is the limit"
    assert phone.says(low, capacity=21)
    assert not phone.says(low, capacity=22)


def test_sensors_are_read_once_a_second(phone: Phone) -> None:
    hot = limits(phone, temperature_c=70)
    assert not phone.says(hot)
    assert not phone.says(hot, temp=90000, after_s=0.9)
    assert phone.says(hot, after_s=0.1)


def test_what_cannot_be_watched_any_more_rests(phone: Phone) -> None:
    hot = limits(phone, temperature_c=70)
    assert not phone.says(hot)
    (phone.zone / "temp").write_text("off\n")
    assert phone.says(hot) and hot.why == "no temperature can be read any more"
    assert not phone.says(hot, temp=40000)


@pytest.mark.parametrize("given, what, why", [
    ({}, "limits without a limit", ""),
    ({"temperature_c": 70000}, "temperature_c=70000", "it is in degrees Celsius"),
    ({"battery": 20}, "battery=20", "it is a share: 0.2 is a fifth"),
    ({"battery": 0.2, "cooler_c": -1}, "cooler_c=-1", "it is how much cooler it has to become"),
])
def test_limits_that_make_no_sense(phone: Phone, given: dict[str, Any], what: str, why: str
                                   ) -> None:
    with pytest.raises(BadInput) as refused:
        limits(phone, **given)
    assert (refused.value.what, refused.value.why) == (what, why)


def test_a_limit_that_no_sensor_can_watch_is_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SENSORS", str(tmp_path))
    with pytest.raises(BadInput) as refused:
        ht.Limits(temperature_c=70)
    assert refused.value.what == "a limit on temperature"
    assert "/sys/class/thermal" in refused.value.why and "handtorch devices" in refused.value.fix
    with pytest.raises(BadInput, match="a limit on battery"):
        ht.Limits(battery=0.2)
