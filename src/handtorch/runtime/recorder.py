"""Recorder: what steps leave behind while they are profiled. Stamps and events, nothing read yet.

A step pays for a handful of stamps and for keeping its events. Their times are read in bulk,
outside any step: when the recorder is switched off, or when very many are held."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

# Events held before the oldest are read, one step's with each step from then on: fifty steps of a
# thousand launches, a thousand steps of fifty. A driver has up to 2 KB for each.
MOST_HELD = 50_000
SYNC_EVERY_NS = 250_000_000

now_ns = time.monotonic_ns


@dataclass(frozen=True)
class SyncPoint:
    """When the device's clock showed `device_ns`, CLOCK_MONOTONIC was ahead of it by `low_ns` at
    least and `high_ns` at most.

    `queued_off_ns` is how far QUEUED may be from the clock of START and END, at most; None where
    the two were not compared or disagree."""

    device_ns: int
    low_ns: int
    high_ns: int
    kind: Literal["timer", "write"]
    queued_off_ns: int | None = None


@dataclass(slots=True, eq=False)
class Pass:
    """One submission of the program: the host's stamps in their order, and the device's events in
    the order in which they were enqueued: `unmaps` of them, then the launches, then maps."""

    begin_ns: int
    taken_ns: int = 0                   # the host had its place in the staging ring
    copied_ns: int = 0                  # the batch was in it
    flushed_ns: int = 0                 # everything was handed to the driver
    seen_ns: int = 0                    # somebody waited for it, and it was done; 0: nobody did
    unmaps: int = 0
    launches: int = 0
    events: Sequence[Any] = ()
    times: NDArray[Any] | None = None   # a row per event: QUEUED, SUBMIT, START, END


@dataclass(slots=True, eq=False)
class Call:
    """One step as its caller sees it; `stretch` counts how often recording had been switched on."""

    number: int
    stretch: int
    begin_ns: int
    passes: list[Pass] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    cpu_ns: int = 0                     # of the whole process, when the call returned
    end_ns: int = 0


class Recorder:
    """Belongs to one session. Off, it costs a step one look at `on`."""

    def __init__(self, *, read: Callable[[Sequence[Any]], NDArray[Any]],
                 sync: Callable[[bool], list[SyncPoint]], finish: Callable[[], None],
                 ring: int) -> None:
        self._read, self._sync, self._finish, self._ring = read, sync, finish, ring
        self.on = False
        self.calls: list[Call] = []
        self.syncs: list[SyncPoint] = []
        self.ends_ns: list[int] = []            # of each stretch: all was seen to be done
        self.reads: list[tuple[int, int]] = []  # when times were read or clocks compared
        self._held = 0
        self._unread: deque[Pass] = deque()
        self._current: Call | None = None
        self._synced_ns = 0

    def start(self) -> None:
        """Steps are recorded from the next one on; waits for those under way."""
        if self.on:
            return
        self._finish()
        self._compare(idle=True)
        self.on = True

    def stop(self) -> None:
        """Steps are not recorded any more; the times of those that were are read."""
        if not self.on:
            return
        self._finish()
        self.on = False
        self.ends_ns.append(now_ns())
        self._compare(idle=True)
        self._read_times(0, 0)

    def begin(self, number: int) -> Call:
        """A step is called."""
        if self._held > MOST_HELD:
            self._read_times(MOST_HELD, self._ring)
        if now_ns() - self._synced_ns > SYNC_EVERY_NS:
            self._compare(idle=self._idle())
        self._current = Call(number, len(self.ends_ns), now_ns())
        return self._current

    def end(self, call: Call) -> None:
        """Everything of it was submitted. A call that fails before this leaves nothing behind."""
        call.end_ns, call.cpu_ns = now_ns(), time.process_time_ns()
        self.calls.append(call)
        self._current = None

    def begin_pass(self) -> tuple[Call, Pass] | None:
        """None while switched off, and outside a call."""
        if not self.on or self._current is None:
            return None
        return self._current, Pass(now_ns())

    def keep(self, call: Call, seen: Pass, unmaps: Sequence[Any], launches: Sequence[Any],
             maps: Sequence[Any]) -> None:
        """Everything of the pass has just been flushed."""
        seen.flushed_ns = now_ns()
        seen.unmaps, seen.launches = len(unmaps), len(launches)
        seen.events = (*unmaps, *launches, *maps)
        call.passes.append(seen)
        self._unread.append(seen)
        self._held += len(seen.events)

    def _idle(self) -> bool:
        """Whether somebody waited for the last step, so that nothing can be under way."""
        return not self.calls or all(p.seen_ns for p in self.calls[-1].passes[-1:])

    def _compare(self, *, idle: bool) -> None:
        begin = now_ns()
        self.syncs += self._sync(idle)
        self._synced_ns = now_ns()
        self.reads.append((begin, self._synced_ns))

    def _read_times(self, held: int, but: int) -> None:
        """Of the oldest passes, until so many events are held; not of the last few passes, which
        may be under way."""
        begin = now_ns()
        while (self._held > held or not held) and len(self._unread) > but:
            seen = self._unread.popleft()
            seen.times = self._read(seen.events)
            self._held -= len(seen.events)
            seen.events = ()
        self.reads.append((begin, now_ns()))
