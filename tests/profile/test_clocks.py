from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.profile import clocks
from handtorch.profile.clocks import NO_TIMES, SWAPPED, Placed, Stamps, place, resolution_ns
from handtorch.runtime.recorder import SyncPoint
from tests.profile.fake_driver import FakeDriver, Truth, steps

BEGIN = 5e12                                     # CLOCK_MONOTONIC after an hour and a half
DRIVERS = st.builds(
    FakeDriver,
    offset_ns=st.sampled_from([0, -1_763_000_000_000_000_000, 250_789_357, 4_000_000_000_000]),
    ppm=st.floats(-300, 300), wander_ppm=st.floats(0, 20),
    step_ns=st.sampled_from([1, 80, 1000, 52_083]), seed=st.integers(0, 2**16),
    queued_off_ns=st.sampled_from([0, 30_000, -8_000]))


def run(driver: FakeDriver, jitter_ns: float, count: int, pause_ns: float, every: int
        ) -> tuple[Truth, Stamps, list[SyncPoint]]:
    """Steps, and sync points before the first, after the last and after each `every` of them."""
    launches = 4
    truth, stamps = steps(driver, BEGIN, count, launches, jitter_ns, pause_ns)
    last = truth.end[launches - 1::launches * every] + jitter_ns
    return truth, stamps, [driver.sync(t, jitter_ns) for t in (BEGIN - 1e5, *last)]


def outside(truth: Truth, placed: Placed) -> list[int]:
    """The events that lie further from the truth than was stated."""
    whole = np.array([not why for why in placed.reason])
    off = np.maximum(np.abs(placed.start - truth.start), np.abs(placed.end - truth.end))
    within = np.where(whole, off <= placed.error,
                      (placed.start - placed.error <= truth.start + 1)
                      & (truth.end - 1 <= placed.end + placed.error))
    return [int(i) for i in np.flatnonzero(~within)]


@given(DRIVERS, st.floats(100, 200_000), st.integers(1, 30), st.floats(0, 3e8),
       st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_every_event_lies_within_the_stated_bound(
        driver: FakeDriver, jitter_ns: float, count: int, pause_ns: float, every: int) -> None:
    truth, stamps, points = run(driver, jitter_ns, count, pause_ns, every)
    placed = place(stamps, points, driver.step_ns)
    assert outside(truth, placed) == []
    assert set(placed.reason) == {""}
    assert (placed.end - placed.start == stamps.end - stamps.start).all()
    assert (placed.start - placed.queued == stamps.start - stamps.queued).all()


@given(DRIVERS, st.data())
@settings(max_examples=200, deadline=None)
def test_events_with_impossible_times_are_flagged_and_bounded_by_their_neighbours(
        driver: FakeDriver, data: st.DataObject) -> None:
    truth, stamps, points = run(driver, 20_000, 8, 1e6, 4)
    count = len(stamps.start)
    lies = data.draw(st.dictionaries(
        st.integers(0, count - 1), st.sampled_from(["zero", "swap", "wrap", "early", "late"]),
        max_size=count))
    start, end = stamps.start.copy(), stamps.end.copy()
    for i, lie in lies.items():
        if lie == "swap":
            start[i], end[i] = end[i] + driver.step_ns, start[i]
        elif lie == "zero":
            start[i] = end[i] = 0
        elif lie == "wrap":
            end[i] = -(2**62)
        else:
            moved = 10**9 if lie == "late" else -10**9
            start[i], end[i] = start[i] + moved, end[i] + moved
    placed = place(replace(stamps, start=start, end=end), points, driver.step_ns)
    assert outside(truth, placed) == []
    assert {i for i, why in enumerate(placed.reason) if why} == set(lies)
    for i, lie in lies.items():
        if lie in ("zero", "wrap") or start[i] <= 0:
            assert placed.reason[i] == NO_TIMES
        elif lie == "swap":
            assert placed.reason[i] == SWAPPED


def test_the_bound_is_worth_something() -> None:
    """A sync point of 1 us each quarter of a second keeps everything within the budget of 0.1 ms,
    at a drift that would be off by 60 us without following it, and more with each second."""
    driver = FakeDriver(offset_ns=7 * 10**9, ppm=80, wander_ppm=10, step_ns=1, seed=1)
    truth, stamps, points = run(driver, 1000, 40, 5e7, 5)
    placed = place(stamps, points, 1)
    assert outside(truth, placed) == []
    assert placed.error.max() < 10_000
    held = place(stamps, points[:1], 1)
    assert outside(truth, held) == [] and held.error.max() > placed.error.max()


def test_queued_keeps_a_long_run_together_that_never_stops() -> None:
    """Ten seconds between two sync points: without QUEUED the bound is what may have wandered."""
    driver = FakeDriver(0, 50, 20, 1, 4)
    truth, stamps, points = run(driver, 5000, 101, 1e8, 100)
    assert len(points) == 3
    loose = replace(stamps, before=stamps.before + 10**9, after=stamps.after - 10**9)
    kept = place(replace(loose, after=stamps.after), points, 1)
    blind = place(loose, [replace(p, queued_off_ns=None) for p in points], 1)
    assert outside(truth, kept) == [] == outside(truth, blind)
    assert kept.error.max() < 12_000 < 100_000 < blind.error.max()


def test_a_queued_that_is_on_another_clock_is_not_believed() -> None:
    driver = FakeDriver(0, 0, 0, 1, 5)
    truth, stamps, points = run(driver, 5000, 20, 1e7, 5)
    placed = place(replace(stamps, queued=stamps.queued + 10**9), points, 1)
    assert outside(truth, placed) == []


def test_without_a_sync_point_the_host_alone_bounds_events() -> None:
    truth, stamps, _ = run(FakeDriver(0, 0, 0, 1, 2), 1000, 3, 0, 1)
    placed = place(stamps, [], 1)
    assert set(placed.reason) == {"the clocks could not be compared"}
    assert (placed.start == stamps.after).all() and (placed.end == stamps.before).all()
    assert outside(truth, placed) == []


def test_one_event_alone_and_none_at_all() -> None:
    none = np.zeros(0, np.int64)
    empty = place(Stamps(none, none, none, none, none, none, none), [], 1)
    assert len(empty.start) == 0 and empty.reason == ()
    one = [np.array([n]) for n in (10, 11, 12, 20, 1000, 1050, 1100)]
    placed = place(Stamps(*one), [SyncPoint(0, 990, 1010, "write")], 1)
    assert (placed.start[0], placed.end[0], placed.reason) == (1012, 1020, ("",))
    assert 11 < placed.error[0] <= 13       # half of what the point leaves, the count, and drift


def test_the_host_sees_that_times_are_too_long() -> None:
    one = [np.array([n]) for n in (10, 11, 12, 900, 1000, 1050, 1100)]
    placed = place(Stamps(*one), [SyncPoint(0, 990, 1010, "write")], 1)
    assert placed.reason == (clocks.TOO_LONG,)
    assert (placed.start[0], placed.end[0]) == (1000, 1100)


@pytest.mark.parametrize(("told", "step", "found"), [(1, 1, 1), (1, 62_000, 62_000),
                                                     (None, 80, 80), (1000, 1, 1000)])
def test_resolution_is_what_is_told_or_what_is_seen(
        told: int | None, step: int, found: int) -> None:
    _, stamps, _ = run(FakeDriver(0, 0, 0, step, 3), 20_000, 10, 1e6, 1)
    assert resolution_ns(stamps, told) == found
