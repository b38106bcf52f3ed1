"""From the slots of a ring to series, and what is told of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from handtorch.meters import ring
from handtorch.meters.sampler import Own, Pace
from handtorch.meters.signal import FAST_NS, SLOW_NS, Absent, Signal
from handtorch.profile.sampled import (
    Deadlines,
    Ending,
    Failed,
    Interval,
    Readings,
    Troubles,
    joined,
    without_readings,
)

FAST = Signal("fake", "rail_power_w", "instant", "gpu", FAST_NS, parent="all_power_w", step=0.1)
S = 1_000_000_000


class Ring:
    """A file written by hand: first what a sampler says of itself, then one signal."""

    def __init__(self, folder: Path, signal: Signal = FAST) -> None:
        own = Own(lambda: 0, Pace()).signals
        table = {"signals": [asdict(s) for s in (*own, signal)], "absent": [], "nice": None}
        self.at, self.path = len(own), folder / "r"
        self.writer = ring.RingWriter(self.path, table, 0)

    def own(self, time_ns: int, boot: float = 0.0, cpu: float = 0.0, stretch: float = 1.0) -> None:
        self.writer.add(0, time_ns, time_ns, [0.0, boot, 0.0, cpu, stretch])

    def read(self, ending: Ending | None = None, now_ns: int = 0) -> Readings:
        return joined(ring.read(self.path), ending or Ending(), "process", 0, now_ns)


@pytest.fixture
def file(tmp_path: Path) -> Ring:
    return Ring(tmp_path)


def test_a_series_has_the_middle_and_half_of_each_reading_in_order(file: Ring) -> None:
    for before, after, value in ((10, 20, 1.0), (50, 51, "asleep"), (30, 36, 2.0), (60, 60, 3.0)):
        file.writer.add(file.at, before, after, [value])
    got = file.read()
    (series,) = got.series
    assert series.signal == FAST
    assert series.time_ns.tolist() == [15, 33, 50, 60]
    assert series.half_ns.tolist() == [5, 3, 1, 0]          # wide enough when it is not even
    np.testing.assert_equal(series.value, [1.0, 2.0, np.nan, 3.0])
    assert got.troubles.failed == (Failed(FAST, 1, 4, ("asleep",)),)
    assert got.of("fake", "rail_power_w") is series
    with pytest.raises(KeyError, match="fake rail_power_j"):
        got.of("fake", "rail_power_j")


def test_its_own_share_leaves_out_the_start(file: Ring) -> None:
    file.writer.put(cpu_ns=90_000_000)
    for time_ns, cpu in ((1 * S, 0.05), (2 * S, 0.06), (5 * S, 0.09)):
        file.own(time_ns, cpu=cpu)
    got = file.read().troubles
    assert got.cpu_share == pytest.approx(0.01) and got.cpu_s == 0.09


def test_one_look_at_its_time_gives_no_share(file: Ring) -> None:
    file.own(S, cpu=0.05)
    assert file.read().troubles.cpu_share is None


def test_a_suspended_machine_is_seen_by_its_clocks(file: Ring) -> None:
    for time_ns, boot in ((1 * S, 100.0), (2 * S, 100.001), (3 * S, 107.5), (4 * S, 107.5)):
        file.own(time_ns, boot=boot)
    got = file.read().troubles
    assert got.suspended == (Interval(2 * S, 3 * S),)
    assert "the machine was suspended between 2.00 s and 3.00 s" in got.lines()


def test_a_slower_pace_is_told_with_its_time(file: Ring) -> None:
    for time_ns, stretch in ((1 * S, 1.0), (2 * S, 2.0), (3 * S, 2.0), (4 * S, 8.0)):
        file.own(time_ns, stretch=stretch)
    got = file.read().troubles
    assert got.slowed == ((2 * S, 2.0), (4 * S, 8.0))
    assert ("from 2.00 s on read 2 times more rarely, to keep to its share of a core"
            in got.lines())


@pytest.mark.parametrize(("every_ns", "stretch", "gap_ms", "silent"), [
    (FAST_NS, 1, 249, False), (FAST_NS, 1, 251, True), (FAST_NS, 32, 700, False),
    (FAST_NS, 32, 900, True), (SLOW_NS, 1, 2400, False), (SLOW_NS, 1, 2600, True)])
def test_silence_is_longer_than_chance(tmp_path: Path, every_ns: int, stretch: int, gap_ms: int,
                                       silent: bool) -> None:
    file = Ring(tmp_path, Signal("fake", "rail_power_w", "instant", "gpu", every_ns))
    file.writer.put(stretch=stretch)
    file.writer.add(file.at, 0, 1000, [1.0])
    file.writer.add(file.at, 1000 + gap_ms * 1_000_000, 1000 + gap_ms * 1_000_000, [1.0])
    found = file.read(now_ns=1000 + gap_ms * 1_000_000).troubles.silent
    assert found == ((Interval(1000, 1000 + gap_ms * 1_000_000),) if silent else ())


def test_after_its_end_there_is_no_silence(file: Ring) -> None:
    file.writer.add(file.at, 0, 1000, [1.0])
    assert file.read(now_ns=9 * S).troubles.silent == (Interval(1000, 9 * S),)
    file.writer.end(ring.ASKED, 2000)
    assert file.read(now_ns=9 * S).troubles.silent == ()


def test_an_exit_is_a_death_only_without_an_end(file: Ring) -> None:
    ending = Ending(stopped_ns=1, exit_code=1, said="MemoryError")
    assert file.read(ending).troubles.died == "exit code 1: MemoryError"
    assert file.read(Ending(stopped_ns=1, exit_code=-11)).troubles.died == "SIGSEGV"
    assert file.read(Ending(stopped_ns=1, exit_code=-99)).troubles.died == "signal 99"
    file.writer.end(ring.ASKED, 2000)
    assert file.read(Ending(stopped_ns=1, exit_code=0)).troubles.died == ""


def test_without_a_file_the_best_reason_is_told() -> None:
    def why(ending: Ending) -> str:
        return without_readings(ending, "none", "no file").troubles.not_started
    assert why(Ending()) == "no file"
    assert why(Ending(exit_code=0)) == "no file"
    assert why(Ending(exit_code=-9)) == "SIGKILL"
    assert why(Ending(not_started="no room")) == "no room"


def test_all_troubles_in_words() -> None:
    troubles = Troubles(
        began_ns=1 * S, killed=True, gone=False, ended="No space left on device", last_ns=3 * S,
        silent=(Interval(2 * S, 4 * S),), deadlines=(Deadlines(FAST_NS, 100, 0),
                                                     Deadlines(SLOW_NS, 7, 2)),
        lost=3, torn=4, failed=(Failed(FAST, 1, 9, ("a", "b")),), absent=(Absent("rapl", "no"),))
    assert troubles.lines() == [
        "the sampler did not end when asked and could not be killed",
        "the sampler ended after 2.00 s: No space left on device",
        "no reading from 1.00 s to 3.00 s",
        "2 of 7 deadlines every 1000 ms were missed",
        "3 readings had no room in the file",
        "4 readings were cut off at the end of the file",
        "fake, rail_power_w: 1 of 9 readings have no value (a; b)"]
    assert Troubles().lines() == []
