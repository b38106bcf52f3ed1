from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from handtorch.runtime import recorder as room
from handtorch.runtime.recorder import Recorder, SyncPoint


class Driver:
    """Counts what a recorder asks of it."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.idle: list[bool] = []
        self.finished = 0

    def recorder(self) -> Recorder:
        return Recorder(read=self._read, sync=self._sync, finish=self._finish, ring=3)

    def _read(self, events: Sequence[Any]) -> Any:
        self.read += events
        return np.array([[e] * 4 for e in events]).reshape(-1, 4)

    def _sync(self, idle: bool) -> list[SyncPoint]:
        self.idle.append(idle)
        return [SyncPoint(1, 2, 3, "timer")]

    def _finish(self) -> None:
        self.finished += 1


def step(recorder: Recorder, number: int, *, waited: bool = False) -> None:
    call = recorder.begin(number)
    seen = recorder.begin_pass()
    assert seen is not None
    recorder.keep(*seen, [10 * number], [10 * number + 1, 10 * number + 2], [10 * number + 3])
    seen[1].seen_ns = int(waited)
    recorder.end(call)


def test_off_it_keeps_nothing() -> None:
    driver = Driver()
    recorder = driver.recorder()
    assert not recorder.on and recorder.begin_pass() is None
    recorder.stop()
    assert driver.finished == 0 and driver.idle == []


def test_times_are_read_when_it_is_switched_off_and_not_before() -> None:
    driver = Driver()
    recorder = driver.recorder()
    recorder.start()
    recorder.start()
    assert driver.finished == 1 and driver.idle == [True]
    for number in range(1, 6):
        step(recorder, number)
    assert driver.read == []
    recorder.stop()
    assert driver.read == [10 * n + i for n in range(1, 6) for i in range(4)]
    (seen,) = recorder.calls[1].passes
    assert seen.times is not None and seen.times[:, 0].tolist() == [20, 21, 22, 23]
    assert (seen.unmaps, seen.launches, seen.events) == (1, 2, ())
    assert 0 < recorder.calls[1].begin_ns <= seen.begin_ns <= seen.flushed_ns
    assert len(recorder.ends_ns) == 1 and recorder.begin_pass() is None


def test_the_oldest_are_read_when_many_are_held_but_not_those_under_way(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_HELD", 18)
    driver = Driver()
    recorder = driver.recorder()
    recorder.start()
    for number in range(1, 6):
        step(recorder, number)                  # 20 events are held
    assert driver.read == []
    step(recorder, 6)
    assert driver.read == [10, 11, 12, 13]      # as many as a step brings, no more at once
    monkeypatch.setattr(room, "MOST_HELD", 0)
    step(recorder, 7)
    assert driver.read[-1] == 33                # 4, 5 and 6 may be under way
    recorder.stop()
    assert len(driver.read) == len(set(driver.read)) == 28


@pytest.mark.parametrize("waited", [True, False])
def test_clocks_are_compared_now_and_then_and_by_writes_only_if_nothing_is_under_way(
        monkeypatch: pytest.MonkeyPatch, waited: bool) -> None:
    monkeypatch.setattr(room, "SYNC_EVERY_NS", -1)
    driver = Driver()
    recorder = driver.recorder()
    recorder.start()
    step(recorder, 1, waited=waited)
    step(recorder, 2, waited=waited)
    assert driver.idle == [True, True, waited]
    assert len(recorder.syncs) == 3 == len(recorder.reads)


def test_a_call_that_fails_leaves_nothing_behind() -> None:
    recorder = Driver().recorder()
    recorder.start()
    recorder.begin(1)
    assert recorder.begin_pass() is not None
    step(recorder, 1)
    recorder.stop()
    assert [c.number for c in recorder.calls] == [1]
    recorder.start()
    step(recorder, 2)
    recorder.stop()
    assert [c.stretch for c in recorder.calls] == [0, 1]
