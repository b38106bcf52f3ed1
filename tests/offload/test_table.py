"""Latencies by load, taken from a real place under a load that is really there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from handtorch.offload.load_generator import LoadGenerator
from handtorch.offload.place import Load, Place
from handtorch.offload.table import LEAST_CALLS, take_level, take_table


def burn() -> None:
    """5 ms of CPU time."""
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass


@pytest.fixture
def core() -> Iterator[int]:
    """This thread runs on one core only, as a place that is pinned would."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield max(before)
    os.sched_setaffinity(0, before)


@pytest.mark.timed
def test_a_place_is_slower_by_as_much_as_its_core_is_taken(core: int) -> None:
    with LoadGenerator(cores=(core,), limit_s=30, highest=0.6) as load:
        table = take_table(Place("cpu", burn), load, burn, levels=(0.0, 0.6), calls=40, most_s=1.0)
    if len(table.known) < 2:
        pytest.skip(f"others use core {core}: {[level.refused for level in table.levels]}")
    free, taken = table.known
    assert taken.held == pytest.approx(0.6, abs=0.05)
    assert free.median_s == pytest.approx(0.005, rel=0.3)
    assert 1.5 < taken.median_s / free.median_s < 4, "1 / (1 - 0.6) is 2.5"


def test_a_level_that_strangers_disturbed_is_refused(core: int) -> None:
    place = Place("cpu", burn, lambda: Load(0.3))
    with LoadGenerator(cores=(core,), limit_s=30, highest=0.3) as load:
        level = take_level(place, load, 0.0, burn, calls=LEAST_CALLS, settle_s=0.0)
    assert level.held is None and level.latencies_s == ()
    assert level.refused == "programs that are none of ours used 30% of cpu meanwhile"
