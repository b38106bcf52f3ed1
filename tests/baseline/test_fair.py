"""Fair timing, on a clock of our own: nothing here depends on how busy the machine is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from handtorch.baseline import fair
from handtorch.baseline.fair import Plan, Timing, Work, interleave, middle_half, settle, timed
from handtorch.meters.procfs import used_seconds


@dataclass
class Clock:
    """Stands in for the module `time`; a millisecond of work or sleep takes no time at all."""

    now_s: float = 0.0
    cpu_s: list[float] = field(default_factory=list)    # what process_time says; empty: quiet
    pauses: list[float] = field(default_factory=list)

    def perf_counter_ns(self) -> int:
        return round(self.now_s * 1e9)

    def process_time(self) -> float:
        return self.cpu_s.pop(0) if self.cpu_s else 0.0

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fair, "time", made)
    return made


Log = list[tuple[str, int]]
Measure = Callable[..., tuple[dict[str, Timing], Log]]


@pytest.fixture
def measure(clock: Clock) -> Measure:
    """`measure(plan, a=0.001)`: one side `a` that takes a millisecond a run."""
    def interleaved(plan: Plan, **seconds: float) -> tuple[dict[str, Timing], Log]:
        log: Log = []

        def side(name: str) -> Work:
            def work(count: int) -> None:
                log.append((name, count))
                clock.now_s += seconds[name] * count
            return work
        return interleave({name: side(name) for name in seconds}, plan), log
    return interleaved


def test_each_round_starts_with_another_side_and_blocks_do_not_mix(measure: Measure) -> None:
    _, log = measure(Plan(rounds=2, block_s=0.008), a=0.001, b=0.002)
    prepare = [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("b", 1), ("b", 1)]
    a, b = [("a", 80), ("a", 8)], [("b", 40), ("b", 4)]     # 80 ms untimed first
    assert log == [*prepare, *a, *b, *b, *a]


def test_a_block_lasts_and_has_its_runs(measure: Measure) -> None:
    by_runs, _ = measure(Plan(rounds=3, block_s=0.004, runs=30), a=0.001)
    assert by_runs["a"].runs == 30
    assert by_runs["a"].seconds == pytest.approx((0.001, 0.001, 0.001))
    by_time, _ = measure(Plan(rounds=2, block_s=0.020), a=0.001)
    assert by_time["a"].runs == 40


def test_slow_sides_do_what_fits(measure: Measure) -> None:
    plan = Plan(rounds=3, block_s=0.004, runs=300, most_s=0.010)
    timings, log = measure(plan, a=0.003, b=0.015)
    assert timings["a"].runs == 9
    assert timings["b"].seconds == pytest.approx((0.015,))
    assert [entry for entry in log if entry[0] == "b"] == [("b", 1)] * 3    # no more warming up
    assert log.count(("a", 4)) == 3         # 10 ms of warming up, not 80


def test_a_side_that_is_too_slow_is_left_out_and_says_why(measure: Measure) -> None:
    timings, log = measure(Plan(rounds=2, block_s=0.002, refuse_s=0.010), a=0.020, b=0.001)
    assert timings["a"] == Timing(
        (), 0, "one run takes 0.02 s, more than the 0.01 s allowed here")
    assert [name for name, _ in log].count("a") == 2
    assert timings["b"].refused == ""


def test_a_block_that_is_far_too_short_is_done_again(clock: Clock) -> None:
    slow = [True] * 3                       # the first runs come in a bad moment

    def work(count: int) -> None:
        each = 0.010 if slow else 0.001
        del slow[:1]
        clock.now_s += each * count
    found = interleave({"a": work}, Plan(rounds=2, block_s=0.020))["a"]
    # Two runs would have been a block: 2 ms. Then twenty, in that round and the next.
    assert (found.runs, found.seconds) == (40, pytest.approx((0.001, 0.001)))


def test_a_side_that_takes_no_time_comes_to_an_end(clock: Clock) -> None:
    def work(count: int) -> None:
        clock.now_s += 1e-6                 # however often

    found = interleave({"a": work}, Plan(rounds=1, block_s=0.001))["a"]
    assert len(found.seconds) == 1


def test_settle_waits_while_the_process_computes(clock: Clock) -> None:
    clock.cpu_s = [0.0, 0.5, 0.5, 0.9, 0.9, 0.9001]     # busy, busy, quiet
    settle()
    assert len(clock.pauses) == 3


def test_settle_gives_up(clock: Clock) -> None:
    clock.cpu_s = [float(s) for s in range(1000)]
    settle()
    assert clock.now_s == pytest.approx(0.5)


def test_others_are_what_the_machine_did_without_us(clock: Clock, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "proc/stat"
    stat.parent.mkdir()
    monkeypatch.setattr(fair, "used_seconds", partial(used_seconds, tmp_path))
    monkeypatch.setattr(fair, "tree_seconds", lambda pid: spent[pid])
    monkeypatch.setattr(fair.os, "cpu_count", lambda: 2)
    spent: dict[int, float | str] = {os.getpid(): 1.0}
    stat.write_text("cpu  100 0 100 9999 9999 0 0 0 0 0\ncpu0 1 2 3 4 5\n")
    begin = fair.moment()
    stat.write_text("cpu  400 50 200 99999 99999 10 10 30 0 0\ncpu0 1 2 3 4 5\n")
    clock.now_s += 10
    spent[os.getpid()] = 4.0
    # 5.0 s of all processes, 3 of them ours and our children's, of 2 cores for 10 s
    assert fair.share_of_others(begin) == pytest.approx(2.0 / 20)
    spent[os.getpid()] = "it is hidden"
    assert fair.share_of_others(begin) is None


def test_a_system_that_hides_its_load(clock: Clock, tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair, "used_seconds", partial(used_seconds, tmp_path))
    assert fair.share_of_others(fair.moment()) is None


def test_every_block_begins_quiet(measure: Measure, clock: Clock) -> None:
    measure(Plan(rounds=3, block_s=0.001), a=0.001, b=0.001)
    assert len(clock.pauses) == 2 + 3 * 2


def test_timed_counts_to_the_end_of_the_work(clock: Clock) -> None:
    def work(count: int) -> None:
        clock.now_s += 0.002 * count

    assert timed(work, 3) == pytest.approx(0.006)


@pytest.mark.parametrize("values, spread", [
    ([5.0], 0.0), ([1.0, 4.0], 3.0), ([9.0, 1.0, 2.0], 8.0),
    ([1.0, 2.0, 3.0, 4.0, 100.0, 6.0, 7.0], 5.0),      # one wild value does not count
])
def test_middle_half(values: list[float], spread: float) -> None:
    assert middle_half(values) == spread


def test_median() -> None:
    assert Timing((3.0, 1.0, 2.0), 3).median_s == 2.0
