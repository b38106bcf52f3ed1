from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters.batterystats import History, Point, read_log, seconds

HEAD = "Battery History (2% used, 6860 used of 256KB):\n"


def history(folder: Path, text: str) -> History:
    (folder / "stats.txt").write_text(text, errors="surrogatepass")
    return read_log(folder / "stats.txt")


def test_every_line_of_the_recorded_history(shared: Path) -> None:
    path = shared / "data" / "logs" / "batterystats_2017_3000mah.txt"
    log = read_log(path)
    text = path.read_text().splitlines()
    told = [*(point.line for point in log.points), *log.notes, *(r.line for r in log.refused)]
    assert sorted(told) == [number for number, line in enumerate(text, 1) if line.strip()]
    assert len(log.points) == sum(re.search(r"\) 0\d\d ", line) is not None for line in text)
    assert log.began == "2017-12-13-20-52-43" and log.capacity_mah == 3000
    assert {line.why for line in log.refused} == {
        "statistics, not history", "not a line of the history: '...'",
    }  # fmt: skip
    first, last = log.points[0], log.points[-1]
    assert (first.charge_ratio, first.voltage_v, first.temp_c) == (0.81, 4.242, 32.8)
    assert (first.plug, first.status, first.on_battery) == ("usb", "charging", False)
    assert "+running" in first.events and first.charge_mah is None
    unplugged = next(point for point in log.points if point.plug == "none")
    assert (unplugged.time_s, unplugged.voltage_v) == (5.915, 8.322)
    assert (last.time_s, last.charge_ratio, last.voltage_v, last.temp_c, last.on_battery) == (
        48 * 60 + 23.877, 0.76, 8.149, 32.6, True,
    )  # fmt: skip
    times = [point.time_s for point in log.points]
    assert times == sorted(times)


def test_what_newer_androids_add(tmp_path: Path) -> None:
    log = history(tmp_path, HEAD + (
        "   0 (9) RESET:TIME: 2024-01-02-03-04-05\n"
        "   0 (2) 100 c0100000 status=full plug=ac temp=300 volt=4400 charge=4321 +plugged\n"
        "   +1d02h03m04s005ms (2) 099 charge=4300 -plugged plug=none status=discharging "
        'top=u0:"a b"\n'
    ))  # fmt: skip
    assert log.refused == () and log.notes == (1, 2)
    first, second = log.points
    assert first.charge_mah == 4321 and first.on_battery is False
    assert second == Point(
        4, 93784.005, 0.99, 4.4, 30.0, "none", "discharging", 4300.0, ("-plugged", 'top=u0:"a b"')
    )


def test_before_anything_is_told_it_is_unknown(tmp_path: Path) -> None:
    (point,) = history(tmp_path, HEAD + "   0 (2) 081 +screen\n").points
    assert (point.voltage_v, point.temp_c, point.plug, point.on_battery) == (None,) * 4


def test_lines_that_are_wrong_are_reported_by_number(tmp_path: Path) -> None:
    log = history(tmp_path, HEAD + (
        "  +5q (2) 081 volt=4000\n"
        "  +5s (2) 181 volt=4000\n"
        "  +6s (2) 081 volt=4000\n"
        "  +7s (2) 081 volt=4,0 temp=300\n"
        "9,h,0,Bl=81\n"
    ))  # fmt: skip
    assert [(line.line, line.why) for line in log.refused] == [
        (2, "not a time: '+5q'"),
        (3, "not a charge in per cent: '181'"),
        (5, "volt: says '4,0', not a whole number"),
        (6, "not a line of the history: '9,h,0,Bl=81'"),
    ]
    assert [(p.line, p.voltage_v, p.temp_c) for p in log.points] == [
        (4, 4.0, None), (5, None, 30.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("+5ms", 0.005), ("+1m00s000ms", 60.0), ("+2h", 7200.0), ("+", None), ("", None),
     ("+5", None), ("+1s2h", None)],
)  # fmt: skip
def test_times(text: str, value: float | None) -> None:
    assert seconds(text) == value


WORD = st.sampled_from(
    ["+5s", "0", "(2)", "081", "volt=4", "temp=x", '"', "charge=", "TIME:", "\n"]
)


@settings(deadline=None)         # a file system may be slow for a moment
@given(st.text() | st.lists(WORD).map(" ".join))
def test_garbage_is_reported_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = history(folder, HEAD + text)
    lines = (folder / "stats.txt").read_bytes().decode("utf-8", "replace").split("\n")
    told = {*(point.line for point in log.points), *log.notes, *(r.line for r in log.refused)}
    assert told == {n for n, line in enumerate(lines, 1) if line.rstrip("\r").strip()}
