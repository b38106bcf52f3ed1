"""Numbers and names from text: the known form, or a reason."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters import (
    cpufreq,
    devfreq,
    fdinfo,
    kgsl,
    nvgpu,
    parse,
    phonegpu,
    procfs,
    schedstat,
    thermal,
    threads,
)
from handtorch.meters.signal import FAST_NS, UNITS, Signal


@pytest.mark.parametrize("text", ["x", "1_0", "٣", "1.5", "--1", "9" * 21, "<unsupported>"])
def test_only_whole_numbers_are_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        parse.number(text)


def test_an_empty_file_has_no_number() -> None:
    with pytest.raises(ValueError, match="is empty"):
        parse.number(" \n")


@pytest.mark.parametrize("text", ["x", "nan", "1_0", "1e9", ".5", "1.", "9" * 400])
def test_what_is_no_decimal_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse.decimal(text)


def test_numbers_and_their_limits() -> None:
    assert [parse.number(text) for text in (" -7\n", "0", "9" * 20)] == [-7, 0, 10**20 - 1]
    assert [parse.decimal(text) for text in (" -7\n", "+1.5", "0")] == [-7.0, 1.5, 0.0]
    assert [parse.percent(text) for text in ("0", "37 %\n", " 37%", "100")] == [0, 0.37, 0.37, 1]
    with pytest.raises(ValueError, match="says -1, which cannot be less than 0"):
        parse.count("-1")
    with pytest.raises(ValueError, match="says 101 %, more than all of the time"):
        parse.percent("101")


def test_clocks() -> None:
    assert parse.hertz("1200195", 1000) == 1_200_195_000.0
    assert parse.hertz("0") == "the clock is off"
    with pytest.raises(ValueError, match="says 762, which in units of 1 Hz is no clock"):
        parse.hertz("762")
    for text in ("260", "260000", "260000000"):
        assert parse.any_hertz(text) == 260e6
    assert parse.any_hertz("0") == "the clock is off"
    with pytest.raises(ValueError, match="says 7, a clock neither in MHz nor in kHz nor in Hz"):
        parse.any_hertz("7")


@given(st.integers(20, 4999), st.sampled_from([1, 10**3, 10**6]))
def test_a_gpu_clock_is_the_same_in_each_unit(mhz: int, per_mhz: int) -> None:
    assert parse.any_hertz(str(mhz * per_mhz)) == mhz * 1e6


def test_lists_of_cores() -> None:
    assert parse.cores("0-3,6\n") == [0, 1, 2, 3, 6]
    assert parse.cores("0") == [0]
    assert parse.cores("\n") == []
    with pytest.raises(ValueError, match="no machine has so many cores"):
        parse.cores("0-99999999")


def test_names() -> None:
    assert parse.plain("CPU-0-0-usr") == "cpu_0_0_usr"
    assert parse.plain("°!") == "unnamed"
    assert parse.distinct(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_2", "a_2_2", "a_3"]


PARSERS: list[Callable[[str], object]] = [
    procfs.core_seconds, procfs.core_ticks, schedstat.core_run_seconds, cpufreq.seconds_at,
    cpufreq.online_count, thermal.celsius, threads.run_seconds, threads.resident_bytes,
    threads.thread_count, kgsl.busy_ratio, nvgpu.load_ratio, phonegpu.ged_busy, phonegpu.ged_clock,
    devfreq.load_ratio, parse.decimal, parse.any_hertz, parse.percent, parse.cores,
    lambda text: procfs.memory_bytes(text, "MemAvailable"),
    lambda text: fdinfo.amount("engine", text), lambda text: fdinfo.amount("curfreq", text),
    lambda text: fdinfo.amount("resident", text),
]  # fmt: skip
# Near enough to the real files to get past the first check of each.
WORDS = st.sampled_from(["cpu", "cpu0", "cpu1", "0", "1", "-1", "17", "99999", "9" * 20, "9" * 30,
                         "version", "15", "MemAvailable:", "kB", "%", "@", "Hz", "ns", "MHz", "KiB",
                         "0-3", ",", ")", "nan", "1e9", "x", "\x00"])  # fmt: skip
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "\n", "", "\t"])), max_size=24).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)


def finite(got: object) -> bool:
    if isinstance(got, dict):
        return all(map(finite, got.values()))
    if isinstance(got, tuple | list):
        return all(map(finite, got))
    return bool(got) if isinstance(got, str) else math.isfinite(got)  # type: ignore[arg-type]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=TEXTS | st.text(max_size=80))
def test_any_text_is_a_finite_value_or_refused(parse: Callable[[str], object], text: str) -> None:
    try:
        got = parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert finite(got)


@given(st.text())
def test_any_label_makes_a_quantity(label: str) -> None:
    name = f"{parse.plain(label)}_power_w"
    assert Signal("hwmon", name, "instant", "cpu", FAST_NS).quantity.rsplit("_", 1)[1] in UNITS
    assert name.isascii() and name == name.lower()
