from __future__ import annotations

import random
import time

from handtorch.meters.pace import Group, Pace
from handtorch.meters.signal import FAST_NS
from tests.meters import fake_sensors as fake


def group(pace: Pace | None = None, rate: int = 0) -> Group:
    return Group(rate, [(fake.Fake("fast"), 0)], pace or Pace(), 0)


def test_deadlines_do_not_drift_and_are_dithered() -> None:
    one = group()
    due = []
    for _ in range(5000):
        one.advance(one.due_ns + 1000)
        due.append(one.due_ns)
    off = [(t - (k + 1) * FAST_NS) / FAST_NS for k, t in enumerate(due)]
    assert -0.3 <= min(off) < -0.29 and 0.29 < max(off) <= 0.3
    assert abs(sum(off) / len(off)) < 0.01 and (one.met, one.missed) == (5000, 0)


def test_every_deadline_is_met_or_counted_as_missed() -> None:
    one, draw, now = group(), random.Random(0), 0
    for _ in range(2000):
        now = max(now, one.due_ns) + int(FAST_NS * draw.choice([0.01, 0.5, 1.2, 2.5, 40]))
        one.advance(now)
        assert now < one.due_ns < now + 1.61 * FAST_NS
    last = round((one.due_ns - 0) / FAST_NS)        # dither is under a half
    assert one.met == 2000 and one.met + one.missed == last


def test_25_ms_of_reading_miss_two_of_three() -> None:
    one, now = group(), 0
    for _ in range(300):
        now = max(now, one.due_ns) + 24_999_999
        one.advance(now)
    assert 1.9 * 300 < one.missed < 2.2 * 300


def test_a_long_sleep_is_skipped_at_once() -> None:
    one = group()
    began = time.thread_time()
    one.advance(10**9 * FAST_NS + FAST_NS // 2)
    assert one.missed in (10**9 - 1, 10**9)
    assert time.thread_time() - began < 0.1         # of work: the wall's depends on others


def test_stretched_periods_begin_anew_but_for_once_a_second() -> None:
    pace = Pace()
    fast, slow = group(pace), group(pace, rate=2)
    pace.stretch = 4
    fast.advance(1000)
    assert (fast.met, fast.missed, fast.period_ns) == (1, 0, 4 * FAST_NS)
    assert 2.8 * FAST_NS <= fast.due_ns <= 5.3 * FAST_NS
    slow.advance(1000)
    assert slow.period_ns == 100 * FAST_NS
