from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.meters.trepn import Column, Log, read_log

HEAD = 'Time  [ms],"Battery Status",Time  [ms],"Battery Power* [uW] (Raw)"\n'


def log_of(folder: Path, text: str) -> Log:
    (folder / "trepn.csv").write_text(text, errors="surrogatepass")
    return read_log(folder / "trepn.csv")


def column(log: Log, quantity: str) -> Column:
    found = log.column(quantity)
    assert found is not None, [c.quantity for c in log.columns]
    return found


def every_line_is_told(log: Log, path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace").split("\n")
    told = {*log.samples, *log.notes, *(line.line for line in log.refused)}
    holding = {n for n, line in enumerate(text, 1) if line.rstrip("\r").strip(" ,")}
    assert told == holding


def test_the_long_form(shared: Path) -> None:
    path = shared / "data" / "logs" / "trepn_nexus6p_system.csv"
    log = read_log(path)
    every_line_is_told(log, path)
    assert log.refused == () and len(log.samples) == 38 and len(log.columns) == 23
    power = column(log, "battery_power_raw_w")
    assert (power.time_s[0], power.value[0]) == (0.049, 0.808647)
    assert column(log, "battery_power_delta_w").time_s == power.time_s
    assert column(log, "battery_temperature_c").value == [31.0] * 38
    assert column(log, "memory_usage_bytes").value[0] == 2649652 * 1024
    assert column(log, "gpu_frequency_hz").value[0] == 180e6
    assert column(log, "cpu5_load_ratio").value[0] == 1.0
    assert column(log, "cpu1_frequency_hz").time_s[:2] == [0.005, 0.156]


@pytest.mark.parametrize(
    ("name", "quantity", "scale"),
    [
        ("Battery Power*", "battery_power_delta_w", 1e6), ("GPU Load", "gpu_load_ratio", 100),
        ("Memory Usage", "memory_usage_bytes", 1 / 1024), ("CPU3 Load", "cpu3_load_ratio", 100),
        ("CPU1 Frequency", "cpu1_frequency_hz", 1e-3), ("Battery Temperature",
         "battery_temperature_c", 10), ("Battery Status", "battery_status_count", 1),
    ],
)  # fmt: skip
def test_our_values_have_trepns_own_averages(
    shared: Path, name: str, quantity: str, scale: float
) -> None:
    log = read_log(shared / "data" / "logs" / "trepn_nexus6p_system.csv")
    assert len(log.averages) == 22
    assert fmean(column(log, quantity).value) * scale == pytest.approx(log.averages[name])


def test_the_short_form(shared: Path) -> None:
    path = shared / "data" / "logs" / "trepn_battery_power_run0.csv"
    log = read_log(path)
    every_line_is_told(log, path)
    assert len(log.samples) == 34
    assert [c.quantity for c in log.columns] == [
        "battery_temperature_c", "memory_usage_bytes", "battery_power_raw_w",
        "battery_power_delta_w",
    ]  # fmt: skip
    assert [(line.line, line.why) for line in log.refused] == [
        (1, "no Battery Status: whether the phone was plugged in is not known")
    ]
    raw = column(log, "battery_power_raw_w")
    assert (raw.time_s[-1], raw.value[-1]) == (6.597, 1.793219)


def test_a_phone_that_is_charged_has_no_power(tmp_path: Path) -> None:
    log = log_of(tmp_path, HEAD + "1,3,2,500000\n11,2,12,700000\n21,5,22,1\n")
    assert column(log, "battery_power_raw_w").value == [0.5]
    assert column(log, "battery_status_count").value == [3, 2, 5]
    assert [(line.line, line.why) for line in log.refused] == [
        (3, "battery_power_raw_w: the battery was not discharging"),
        (4, "battery_power_raw_w: the battery was not discharging"),
    ]


def test_the_status_may_stand_behind_the_power(tmp_path: Path) -> None:
    head = "Time  [ms],Battery Power* [uW],Time  [ms],Battery Status\n"
    log = log_of(tmp_path, head + "1,500000,2,2\n")
    assert column(log, "battery_power_w").value == []


def test_lines_that_are_wrong_are_reported_by_number(tmp_path: Path) -> None:
    log = log_of(tmp_path, "hello\n" + HEAD + '1,3,2\n3,3,x,5\n4,3,5,\n5,3,6,7"\n7,3,"8,9\n')
    assert [(line.line, line.why) for line in log.refused] == [
        (1, "before the header: 'hello'"),
        (3, "battery_power_raw_w: the line ends before it"),
        (4, "battery_power_raw_w: its time: says 'x', not a number"),
        (5, "battery_power_raw_w: is empty"),
        (6, "battery_power_raw_w: says '7\"', not a number"),
        (7, "not a line of CSV: unexpected end of data"),
    ]
    assert column(log, "battery_status_count").value == [3, 3, 3, 3]


def test_a_column_of_an_unknown_unit_is_not_read(tmp_path: Path) -> None:
    head = "Time  [ms],Network [furlong],Time  [ms],Battery Status,[uW]\n"
    log = log_of(tmp_path, head + "1,2,3,3,4\n")
    assert [c.quantity for c in log.columns] == ["battery_status_count"]
    assert [line.why for line in log.refused] == [
        "Network: the unit 'furlong' is not known", "not the name of a column: '[uW]'",
    ]  # fmt: skip


def test_statistics_that_are_not(tmp_path: Path) -> None:
    log = log_of(tmp_path, HEAD + "System Statistics:\nSensor Id,Name\n1,A,B,x\n1,A\n")
    assert [(line.line, line.why) for line in log.refused] == [
        (4, "statistics: says 'x', not a number"), (5, "statistics: not four columns"),
    ]  # fmt: skip


CELL = st.sampled_from(["Time  [ms]", "A [uW]", "Battery Status", "1", "x", '"', "9" * 400, "\n"])


@settings(deadline=None)         # a file system may be slow for a moment
@given(st.text() | st.lists(CELL).map(",".join))
def test_garbage_is_reported_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = log_of(folder, text)
    every_line_is_told(log, folder / "trepn.csv")
    assert all(len(c.time_s) == len(c.value) for c in log.columns)
