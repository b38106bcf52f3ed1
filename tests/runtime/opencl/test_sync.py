from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from handtorch.runtime.opencl import sync
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.recorder import SyncPoint


@pytest.fixture(scope="module")
def on(opencl_device: FoundDevice) -> Iterator[OpenCLContext]:
    yield OpenCLContext(opencl_device)


def test_both_ways_to_compare_clocks_agree(on: OpenCLContext) -> None:
    """Within the bounds both give; and QUEUED is on the same clock on these drivers."""
    written = sync.write_point(on, on.buffer(4), 15)
    assert written is not None and written.low_ns <= written.high_ns
    assert written.queued_off_ns is not None
    timer = sync.timer_point(on, 15)
    if timer is not None:
        drift = 1e-3 * abs(timer.device_ns - written.device_ns)
        assert max(timer.low_ns, written.low_ns) <= min(timer.high_ns, written.high_ns) + drift


def test_many_times_at_once_are_those_of_each(on: OpenCLContext) -> None:
    word = on.buffer(4)
    events = [on.cl.enqueue_fill_buffer(on.timed_queue, word, np.zeros(1, "f4"), 0, 4)
              for _ in range(5)]
    on.timed_queue.finish()
    rows = sync.read_times(on, events)
    each = [on.times(e) for e in events]
    assert rows.tolist() == [[t.queued_ns, t.submit_ns, t.start_ns, t.end_ns] for t in each]
    assert sync.read_times(on, []).shape == (0, 4)


def test_an_event_without_times_gives_zeros(on: OpenCLContext) -> None:
    event = on.cl.enqueue_fill_buffer(on.queue, on.buffer(4), np.zeros(1, "f4"), 0, 4)
    event.wait()                                # on the queue that does not profile
    assert sync.read_times(on, [event]).tolist() == [[0, 0, 0, 0]]


def test_a_time_that_wrapped_around_is_negative(on: OpenCLContext) -> None:
    event = SimpleNamespace(get_profiling_info=lambda what: 2**64 - 5)
    assert sync.read_times(on, [event]).tolist() == [[-5, -5, -5, -5]]


@pytest.mark.parametrize("wrong_ns", [0, 10**12])
def test_a_timer_that_disagrees_with_events_is_not_used(
        on: OpenCLContext, monkeypatch: pytest.MonkeyPatch, wrong_ns: int) -> None:
    """As of drivers that answer with a clock of the host's."""
    true = sync.write_point(on, on.buffer(4), 15)
    assert true is not None

    def timer(on: Any, tries: int) -> SyncPoint:
        fresh = sync.write_point(on, on.buffer(4), 15)
        assert fresh is not None
        return SyncPoint(fresh.device_ns + wrong_ns, fresh.low_ns - wrong_ns,
                         fresh.high_ns - wrong_ns, "timer")

    monkeypatch.setattr(sync, "timer_point", timer)
    compare = sync.comparer(on)
    assert {p.kind for p in compare(True)} == {"write"} | ({"timer"} if not wrong_ns else set())
    assert [p.kind for p in compare(False)] == ([] if wrong_ns else ["timer"])


def test_all_tries_together_are_tighter_than_one() -> None:
    point = sync._tightest([(100, 1000, 1100), (200, 1150, 1260)], "timer")
    assert point == SyncPoint(200, 950, 1000, "timer")
    odd = sync._tightest([(100, 1000, 1010), (200, 5000, 5500)], "timer")
    assert odd == SyncPoint(100, 900, 910, "timer")
    assert sync._tightest([], "timer") is None


def test_how_far_queued_may_be_from_start() -> None:
    one = SyncPoint(0, 100, 120, "write")
    assert sync._apart(one, SyncPoint(0, 110, 140, "write")) == 40
    assert sync._apart(one, SyncPoint(0, 121, 140, "write")) is None
