"""What a relay writes down, and that it travels."""

from __future__ import annotations

import json

import pytest

from handtorch.cloud import relay_log
from handtorch.cloud.relay_log import Passing, Writing, log_of


def passed(writing: Writing, first_in_ns: int, count: int, out_ns: tuple[int, ...]) -> Passing:
    message = writing.begin(Passing(1, "up", 10.0, first_in_ns))
    message.entered(count, first_in_ns)
    for at_ns in out_ns:
        message.left(count // len(out_ns), at_ns)
    return message


def test_a_message_is_timed_with_and_without_the_way() -> None:
    writing = Writing()
    passed(writing, 1_000_000, 100, (12_000_000, 31_000_000))
    burst = writing.log("lte", {}, {}).last()
    assert burst is not None and burst.complete
    assert (burst.first_out_ns, burst.last_out_ns) == (12_000_000, 31_000_000)
    assert (burst.whole_ms, burst.carried_ms) == (30.0, 20.0)


def test_what_has_not_left_has_no_time() -> None:
    writing = Writing()
    passed(writing, 5, 100, ())
    log = writing.log("lte", {}, {})
    assert log.last() is None and not log.bursts[0].complete
    assert log.bursts[0].whole_ms is None and log.bursts[0].carried_ms is None


def test_lateness_in_the_middle_and_at_its_worst() -> None:
    writing = Writing()
    for late_ms in [0.1] * 98 + [3.0, 400.0]:
        writing.late.add(late_ms * 1e6)
    late = writing.log("lte", {}, {}).late
    assert (late.count, late.median_ms, late.most_ms) == (100, pytest.approx(0.1), 400.0)
    assert late.p99_ms == pytest.approx(3.0)
    assert Writing().late.late().median_ms is None


def test_a_log_keeps_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_log, "KEPT", 3)
    writing = Writing()
    for number in range(5):
        passed(writing, number, 1, (number + 20,))
    log = writing.log("lte", {"up": 5}, {"up": 0})
    assert [b.first_in_ns for b in log.bursts] == [2, 3, 4] and log.left_out == 2


def test_a_log_travels() -> None:
    writing = Writing()
    passed(writing, 1, 10, (30_000_000,))
    passed(writing, 2, 10, ())
    writing.late.add(-3e5)
    writing.read.add(1e5)
    writing.polled_ns = 2e6
    log = writing.log("lte", {"up": 1, "down": 0}, {"up": 0, "down": 0})
    assert log_of(json.loads(json.dumps(log.to_record()))) == log
