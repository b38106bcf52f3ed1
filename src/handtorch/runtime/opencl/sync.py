"""The device's clock beside the host's, and the times of many events at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.recorder import SyncPoint, now_ns

_TRIES = 15
_TRIES_BETWEEN = 3          # writes cost a wait each, and bounds from every step come on top


def read_times(on: OpenCLContext, events: Sequence[Any]) -> NDArray[Any]:
    """A row per event, all of them complete: QUEUED, SUBMIT, START, END. Signed, so that a time
    that has wrapped around below zero is seen as one; zeros where the driver has none."""
    info = on.cl.profiling_info
    rows = np.zeros((len(events), 4), np.uint64)
    try:
        for column, what in enumerate((info.QUEUED, info.SUBMIT, info.START, info.END)):
            rows[:, column] = [event.get_profiling_info(what) for event in events]
    except on.cl.Error as e:
        if e.code != on.cl.status_code.PROFILING_INFO_NOT_AVAILABLE:
            raise
        rows[:] = 0
    return rows.astype(np.int64)


def comparer(on: OpenCLContext) -> Callable[[bool], list[SyncPoint]]:
    """A function that compares the two clocks now. While the queues are not idle it can do so only
    where the driver has a timer for it; else it gives nothing."""
    with on.asking("a buffer for comparing clocks"):
        word = on.buffer(4)
    # A timer is believed only as long as it agrees with what writes show, which are events.
    trusted = timer_point(on, _TRIES)
    if trusted is not None:
        written = write_point(on, word, _TRIES)
        if written is None or (max(trusted.low_ns, written.low_ns)
                               > min(trusted.high_ns, written.high_ns)):
            trusted = None

    def compare(idle: bool) -> list[SyncPoint]:
        points = [timer_point(on, _TRIES)] if trusted is not None else []
        if idle:
            points.append(write_point(on, word, _TRIES_BETWEEN if trusted else _TRIES))
        return [p for p in points if p is not None]

    return compare


def timer_point(on: OpenCLContext, tries: int) -> SyncPoint | None:
    """By the driver's own timer; None where it has none. Its idea of the host's time is left
    aside: which clock that is, the specification leaves open."""
    seen = []
    try:
        for _ in range(tries):
            before = now_ns()
            device, _ = on.found.handle.device_and_host_timer()
            seen.append((device, before, now_ns()))
    except (on.cl.Error, NotImplementedError):      # INVALID_OPERATION, or OpenCL before 2.1
        return None
    return _tightest(seen, "timer")


def write_point(on: OpenCLContext, word: Any, tries: int) -> SyncPoint | None:
    """By small writes on the idle profiling queue: each starts after it was enqueued and ends
    before the wait for it does. QUEUED lies between the two ends of the call that enqueues it.
    None if the driver gave no usable time."""
    seen, queued = [], []
    zero = np.zeros(1, "f4")
    with on.asking("comparing clocks"):
        for _ in range(tries):
            before = now_ns()
            event = on.cl.enqueue_fill_buffer(on.timed_queue, word, zero, 0, 4)
            returned = now_ns()
            event.wait()
            after = now_ns()
            asked, _, start, end = (int(t) for t in read_times(on, [event])[0])
            if 0 < start <= end:
                # As a moment at START: what came after END is known to be at least as late.
                seen.append((start, before, after - (end - start)))
                queued.append((asked, before, returned))
    point, by_queued = _tightest(seen, "write"), _tightest(queued, "write")
    if point is None or by_queued is None:
        return point
    return replace(point, queued_off_ns=_apart(point, by_queued))


def _apart(one: SyncPoint, other: SyncPoint) -> int | None:
    """How far apart two offsets may be that lie in these bounds; None if they cannot be equal."""
    if max(one.low_ns, other.low_ns) > min(one.high_ns, other.high_ns):
        return None
    return max(one.high_ns - other.low_ns, other.high_ns - one.low_ns)


def _tightest(seen: Sequence[tuple[int, int, int]], kind: Any) -> SyncPoint | None:
    """All tries together: within a millisecond no clock drifts by a nanosecond that matters."""
    if not seen:
        return None
    low = max(before - device for device, before, _ in seen)
    high = min(after - device for device, _, after in seen)
    if low > high:      # one of them was stamped wrongly: the narrowest alone
        device, before, after = min(seen, key=lambda s: s[2] - s[1])
        return SyncPoint(device, before - device, after - device, kind)
    return SyncPoint(seen[len(seen) // 2][0], low, high, kind)
