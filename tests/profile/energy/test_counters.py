from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from handtorch.profile.energy.counters import Deltas, deltas, said
from handtorch.profile.energy.model import Series
from tests.profile.energy.small_world import signal


def rises(values: list[float], wraps_at: float | None = None) -> Deltas:
    time = np.arange(len(values)) * 10_000_000
    series = Series(signal("counter", wraps_at=wraps_at), time, np.zeros_like(time),
                    np.array(values, float))
    return deltas(series, time * 1e-9)


@given(st.lists(st.integers(1, 9), min_size=4, max_size=20), st.integers(0, 999))
def test_a_wrap_anywhere_is_seen(steps: list[int], begin: int) -> None:
    values = begin + np.concatenate([[0], np.cumsum(steps)])
    found = rises(list(values % 1000), wraps_at=1000)
    assert found.value.tolist() == steps
    assert found.wraps == int(values[-1] >= 1000)


def test_a_fall_that_is_no_wrap_and_a_leap_are_dropped_and_said() -> None:
    found = rises([10, 20, 30, 5, 15, 9000, 9010], wraps_at=262144)
    assert np.isnan(found.value).tolist() == [False, False, True, False, True, False]
    assert said(found) == ("the counter fell 1 x without a wrap: dropped",
                           "the counter leapt 1 x by more than can be: dropped")
    assert np.isnan(rises([10, 20, 30, 5, 15]).value[2])       # its range is not known


def test_a_counter_that_stands_still_took_nothing() -> None:
    assert rises([7, 7, 7]).value.tolist() == [0, 0] and said(rises([7, 7, 7])) == ()
