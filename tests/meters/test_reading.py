"""What all file sensors share: numbers with care, files that come and go, and reasons."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.meters import (
    cpufreq,
    devfreq,
    fdinfo,
    kgsl,
    nvgpu,
    phonegpu,
    procfs,
    reading,
    schedstat,
    thermal,
    threads,
)
from handtorch.meters.signal import SLOW_NS, Signal
from tests.meters.trees import closed, plant, values


def entry(path: Path, name: str = "a") -> reading.Entry:
    heat = Signal("test", f"{name}_c", "gauge", "machine", SLOW_NS, where=f"/{path.name}")
    return reading.Entry(path, (heat,), reading.alone(lambda text: float(reading.number(text))))


@pytest.mark.parametrize("text", ["", "x", "1_0", "٣", "1.5", "--1", "9" * 21, "<unsupported>"])
def test_only_whole_numbers_are_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        reading.number(text)


def test_numbers_and_their_limits() -> None:
    assert [reading.number(text) for text in (" -7\n", "0", "9" * 20)] == [-7, 0, 10**20 - 1]
    assert [reading.percent(text) for text in ("0", "37 %\n", " 37%", "100")] == [0, 0.37, 0.37, 1]
    with pytest.raises(ValueError, match="says -1, which cannot be less than 0"):
        reading.count("-1")
    with pytest.raises(ValueError, match="says 101 %, more than all of the time"):
        reading.percent("101")


def test_clocks() -> None:
    assert reading.hertz(1_200_195, 1000) == 1_200_195_000.0
    assert reading.hertz(0) == "the clock is off"
    with pytest.raises(ValueError, match="says 762, which in units of 1 Hz is no clock"):
        reading.hertz(762)
    for text in ("260", "260000", "260000000"):
        assert reading.any_hertz(text) == 260e6
    assert reading.any_hertz("0") == "the clock is off"
    with pytest.raises(ValueError, match="says 7, a clock neither in MHz nor in kHz nor in Hz"):
        reading.any_hertz("7")


@given(st.integers(20, 4999), st.sampled_from([1, 10**3, 10**6]))
def test_a_gpu_clock_is_the_same_in_each_unit(mhz: int, per_mhz: int) -> None:
    assert reading.any_hertz(str(mhz * per_mhz)) == mhz * 1e6


def test_lists_of_cores() -> None:
    assert reading.cores("0-3,6\n") == [0, 1, 2, 3, 6]
    assert reading.cores("0") == [0]
    assert reading.cores("\n") == []
    with pytest.raises(ValueError, match="no machine has so many cores"):
        reading.cores("0-99999999")


def test_names() -> None:
    assert reading.plain("CPU-0-0-usr") == "cpu_0_0_usr"
    assert reading.plain("°!") == "unnamed"
    assert reading.distinct(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_2", "a_2_2", "a_3"]


def test_names_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    plant(tmp_path, {f"cpu{core}/x": "" for core in (10, 2, 0)} | {"cpufreq/x": ""})
    assert reading.listed(tmp_path, "cpu[0-9]+") == ["cpu0", "cpu2", "cpu10"]
    assert reading.within(tmp_path / "no such folder") == []


def test_a_closed_file_is_absent_with_its_remedy(tmp_path: Path) -> None:
    plant(tmp_path, {"good": "7\n", "shut": "7\n"})
    with closed(tmp_path, "shut") as root:
        found = reading.gather("test", [entry(root / "shut"), entry(root / "good", "b")])
        assert reading.there(root / "shut")
        assert values(found) == {"b_c": 7.0}
    (absent,) = found.absent
    assert absent.why == "/shut: Permission denied"
    assert absent.fix == "run as root, or make /shut readable"


def test_a_closed_folder_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    plant(tmp_path, {"folder/shut": "7\n"})
    with closed(tmp_path, "folder") as root:
        assert reading.there(root / "folder/shut")
        assert reading.chosen(root / "no", root / "folder/shut") == root / "folder/shut"
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


def test_a_list_of_several_pages_is_read_to_its_end() -> None:
    """The kernel hands out some 4 KiB of such a list at a time."""
    assert len(Path("/proc/self/smaps").read_text()) > 65536
    assert 60_000 < len(reading.content(Path("/proc/self/smaps"))) <= 65536


PARSERS: list[Callable[[str], object]] = [
    procfs.core_seconds, procfs.core_ticks, schedstat.core_run_seconds, cpufreq.seconds_at,
    cpufreq.online_count, thermal.celsius, threads.run_seconds, threads.resident_bytes,
    threads.thread_count, kgsl.busy_ratio, nvgpu.load_ratio, phonegpu.ged_busy, phonegpu.ged_clock,
    devfreq.load_ratio, reading.any_hertz, reading.percent, reading.cores,
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
