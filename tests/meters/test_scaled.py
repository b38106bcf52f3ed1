from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters.scaled import (
    ScaledFile,
    folders,
    lacking,
    number,
    once,
    open_scaled,
    plain,
)
from handtorch.meters.signal import FAST_NS, UNITS, Absent, Signal
from tests.meters.power_trees import deny, plant

SIGNAL = Signal("hwmon", "x_power_w", "instant", "cpu", FAST_NS)


@given(st.text() | st.from_regex(r"[-+0-9._eEinfa ]{0,400}"))
def test_any_text_is_a_finite_number_or_a_reason(text: str) -> None:
    found = number(text)
    assert found if isinstance(found, str) else math.isfinite(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [("17\n", 17.0), (" -256000 ", -256000.0), ("1.5", 1.5), ("", "it is empty"),
     ("nan", "not a number: 'nan'"), ("1_000", "not a number: '1_000'"),
     ("9" * 400, f"not a number: '{'9' * 40}'"), ("٣", "not a number: '٣'")],
)  # fmt: skip
def test_what_a_file_may_hold(text: str, found: float | str) -> None:
    assert number(text) == found


def test_a_file_is_read_before_it_counts_as_there(tmp_path: Path) -> None:
    plant(tmp_path, {"sys/a": 1500, "sys/b": "off", "sys/c": None})
    a, b, c, d = (open_scaled(tmp_path, SIGNAL, tmp_path / "sys" / n, 1e3) for n in "abcd")
    assert isinstance(a, ScaledFile) and a.value() == 1.5 and a.signal.where == "/sys/a"
    assert b == Absent("hwmon", "/sys/b: not a number: 'off'")
    assert c == Absent("hwmon", "/sys/c: Is a directory")
    assert d == Absent("hwmon", "/sys/d: No such file or directory")
    plant(tmp_path, {"sys/a": "gone"})
    assert a.value() == "not a number: 'gone'"
    a.file.close()
    assert a.value() == "Bad file descriptor"
    assert once(tmp_path / "sys/d") == "No such file or directory"


def test_a_refused_permission_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"sys/a": 1})
    deny(monkeypatch, "/a")
    refused = open_scaled(tmp_path, SIGNAL, tmp_path / "sys/a", 1)
    assert refused == Absent(
        "hwmon", "/sys/a: Permission denied", "run as root, or: sudo chmod a+r /sys/a"
    )


def test_folders_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("hwmon10", "hwmon2", "hwmon"):
        (tmp_path / name).mkdir()
    assert [path.name for path in folders(tmp_path)] == ["hwmon", "hwmon2", "hwmon10"]
    assert folders(tmp_path / "nowhere") == []


def test_a_folder_that_is_hidden_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Android hides /sys/class from apps."""
    sys = Path("sys/class/power_supply")
    assert lacking(tmp_path, sys, "battery") == "there is no /sys/class/power_supply"
    (tmp_path / sys).mkdir(parents=True)
    assert lacking(tmp_path, sys, "battery") == "/sys/class/power_supply has no battery"

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    assert lacking(tmp_path, sys, "battery") == "/sys/class/power_supply: Permission denied"
    assert folders(tmp_path / sys) == []


@given(st.text())
def test_any_label_makes_a_quantity(label: str) -> None:
    name = f"{plain(label)}_power_w"
    assert Signal("hwmon", name, "instant", "cpu", FAST_NS).quantity.rsplit("_", 1)[1] in UNITS
    assert name.isascii() and name == name.lower()
