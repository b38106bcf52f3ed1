"""Sensors of files that come and go, and the reasons that a search gives."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from handtorch.meters import file, parse, reading
from handtorch.meters.signal import SLOW_NS, Absent, Signal
from tests.meters.power_trees import answers
from tests.meters.trees import closed, plant, reasons, values


def entry(path: Path, name: str = "a") -> reading.Entry:
    heat = Signal("test", f"{name}_c", "gauge", "machine", SLOW_NS, where=f"/{path.name}")
    return reading.Entry(path, (heat,), lambda text: (float(parse.number(text)),))


def test_a_closed_file_is_absent_with_its_remedy(tmp_path: Path) -> None:
    plant(tmp_path, {"good": "7\n", "shut": "7\n"})
    with closed(tmp_path, "shut") as root:
        found = reading.gather("test", [entry(root / "shut"), entry(root / "good", "b")])
        assert file.there(root / "shut")
        assert values(found) == {"b_c": 7.0}
    (absent,) = found.absent
    assert absent.why == "/shut: Permission denied"
    assert absent.fix == "run as root, or make /shut readable"


def test_a_closed_folder_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    plant(tmp_path, {"folder/shut": "7\n"})
    with closed(tmp_path, "folder") as root:
        assert file.there(root / "folder/shut")
        assert file.chosen(root / "no", root / "folder/shut") == root / "folder/shut"
        found = reading.gather("test", [entry(root / "folder/shut")])
    assert found.absent[0].why == "/shut: Permission denied"


def test_files_that_fail_alike_share_a_line(tmp_path: Path) -> None:
    plant(tmp_path, {name: "hot" for name in "abc"})
    found = reading.gather("test", [entry(tmp_path / name, name) for name in "abc"])
    assert found.sensors == ()
    assert [a.why for a in found.absent] == ["/a and 2 more: says 'hot', not a whole number"]


def test_a_file_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    """As the files of a core do that goes offline. The kernel's files then fail even where they
    were open; here, one that is not open yet."""
    plant(tmp_path, {"a": "7"})
    (sensor,) = reading.gather("test", [entry(tmp_path / "a")]).sensors
    (tmp_path / "a").unlink()
    assert sensor.read() == ["No such file or directory"]
    plant(tmp_path, {"a": "8"})
    assert sensor.read() == [8.0]
    plant(tmp_path, {"a": "broken"})
    assert sensor.read() == ["says 'broken', not a whole number"]
    plant(tmp_path, {"a": "9"})
    assert sensor.read() == [9.0]
    sensor.close()


def test_an_open_file_of_a_process_that_ended() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    sensor = reading.FileSensor([entry(Path(f"/proc/{child.pid}/oom_score"))])
    assert isinstance(sensor.read()[0], float)
    child.communicate()
    assert sensor.read() == ["No such process"]
    assert sensor.read() == ["No such file or directory"]      # it was opened anew
    sensor.close()


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EBUSY, errno.ENODATA, errno.EIO])
def test_hardware_that_is_asleep_is_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    one = entry(plant(tmp_path, {"a": "7"}) / "a")
    with monkeypatch.context() as asleep:
        asleep.setattr(os, "pread", answers(number))
        assert reading.usable(one.path, one.parse) == (number != errno.EIO)
        found = reading.gather("test", [one])
    if number == errno.EIO:
        assert reasons(found) == ["/a: Input/output error"]
    else:
        assert (values(found), found.absent) == ({"a_c": 7.0}, ())


def test_a_file_read_once(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "7\n", "b": "off\n"})
    assert [reading.once(tmp_path / name, parse.number) for name in "abc"] == [
        7, "says 'off', not a whole number", "No such file or directory"]  # fmt: skip


def test_a_folder_that_is_hidden_is_not_called_empty(tmp_path: Path) -> None:
    """As Android hides /sys/class from apps."""
    sys = tmp_path / "sys/class"
    (absent,) = reading.lacking("test", tmp_path, sys, "battery").absent
    assert absent == Absent("test", "no /sys/class")
    sys.mkdir(parents=True)
    (absent,) = reading.lacking("test", tmp_path, sys, "battery").absent
    assert absent == Absent("test", "/sys/class has no battery")
    with closed(tmp_path, "sys/class") as root:
        (absent,) = reading.lacking("test", root, root / "sys/class", "battery").absent
    why = "/sys/class: Permission denied"
    assert absent == Absent("test", why, "run as root, or make /sys/class readable")


def test_a_family_may_know_a_better_remedy(tmp_path: Path) -> None:
    plant(tmp_path, {"a": "7", "folder/b": "7"})
    with closed(tmp_path, "folder") as root:
        found = reading.gather("test", [entry(root / "folder/b")], fix="chmod")
    assert [(a.why, a.fix) for a in found.absent] == [("/b: Permission denied", "chmod")]


def test_the_first_of_several_files(tmp_path: Path) -> None:
    heat = Signal("test", "a_c", "gauge", "machine", SLOW_NS)
    files = {tmp_path / "a": lambda text: 1.0, tmp_path / "b": lambda text: 2.0}
    assert reading.first(tmp_path, heat, files) is None
    plant(tmp_path, {"b": "x"})
    one = reading.first(tmp_path, heat, files)
    assert one is not None and (one.signals[0].where, one.parse("")) == ("/b", (2.0,))
