"""Requests of one model, joined to batches and computed in threads of their own: as many at a time
as its engine computes side by side, which is one but for replicas.

A batch begins when it is full, when as many samples wait as were under way when the last one
began, or when its oldest request has waited long enough: `wait_s`, or a fifth of what a batch costs
however small it is, once that is known. So a single client never waits for company that does not
come, a crowd is served together where that is worth it, and where it is not (a batch of eight that
takes eight times as long) requests are received while others are computed. Samples count, not
requests.

What fails together is tried one by one: nobody is refused for what another one sent."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.cloud.refused import ClientGone, Refused
from handtorch.errors import HandTorchError

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Compute = Callable[[Arrays], Arrays]            # rows in, as many rows out


@dataclass(frozen=True)
class BatchLimits:
    rows: int = 8               # of one batch
    wait_s: float = 0.002       # of its oldest request, for company
    queued: int = 256           # samples; beyond that a client is told to come later


class Cost:
    """What a batch takes: a part of its own and a part for each row, as far as batches tell."""

    _FORGET, _ENOUGH, _SHARE = 0.97, 8, 0.2

    def __init__(self) -> None:
        self._sums = np.zeros(5)        # of 1, rows, rows^2, seconds, rows * seconds
        self._batches = 0

    def saw(self, rows: int, took_s: float) -> None:
        self._sums *= self._FORGET
        self._sums += (1, rows, rows * rows, took_s, rows * took_s)
        self._batches += 1

    def worth_s(self) -> float:
        """How long a wait for company may be worth; infinite until batches of different sizes
        have told."""
        _, rows, squares, seconds, products = self._sums / max(self._sums[0], 1e-9)
        spread = squares - rows * rows
        if self._batches < self._ENOUGH or spread < 1e-3:
            return math.inf
        each = (products - rows * seconds) / spread
        return float(self._SHARE * min(max(seconds - each * rows, 0.0), seconds))


@dataclass(frozen=True)
class Done:
    """What one request got, when its batch began and ended, and how many rows that had."""

    outputs: Arrays
    begin_ns: int
    end_ns: int
    batch_rows: int


@dataclass(eq=False)
class _Waiting:
    inputs: Arrays
    gone: Callable[[], bool]
    future: asyncio.Future[Done]
    since_s: float = field(default_factory=time.monotonic)

    @property
    def rows(self) -> int:
        return len(self.inputs[0])


@dataclass(frozen=True)
class _Ran:
    """One batch: what each of its requests got, or the error that is its own."""

    outcomes: tuple[Arrays | HandTorchError, ...]
    begin_ns: int
    end_ns: int


class Batcher:
    """All calls but `compute` happen on the event loop, so nothing here needs a lock."""

    def __init__(self, compute: Compute, limits: BatchLimits, threads: ThreadPoolExecutor,
                 at_once: int = 1) -> None:
        self._compute, self.limits, self._threads = compute, limits, threads
        self._at_once, self._running = at_once, 0       # batches
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self.queued = 0                 # samples in it
        self._expected = 1              # samples under way when the last batch began
        self._sample_s = 0.0            # of compute, smoothed; tells clients when to come again
        self._cost = Cost()
        self._timer: asyncio.TimerHandle | None = None
        self.batches = 0

    @property
    def idle(self) -> bool:
        return not self._queue and not self._running

    async def run(self, inputs: Arrays, gone: Callable[[], bool]) -> Done:
        """What the model gives for these rows; `gone` tells that nobody wants it any more."""
        waiting = _Waiting(inputs, gone, self._loop.create_future())
        if self.queued + waiting.rows > self.limits.queued:
            self._leave_out_the_dead()
        if self.queued + waiting.rows > self.limits.queued:
            later_s = max(1, math.ceil(self.queued * self._sample_s))
            raise Refused(503, "the queue is full", why=f"{self.queued} samples wait, the limit is "
                          f"{self.limits.queued}", headers={"Retry-After": str(later_s)})
        self._queue.append(waiting)
        self.queued += waiting.rows
        self._look()
        return await waiting.future

    def _look(self) -> None:
        """Begin the next batch, or come back when its oldest request has waited long enough."""
        if self._running == self._at_once or not self._queue:
            return
        wait_s = min(self.limits.wait_s, self._cost.worth_s())
        left_s = self._queue[0].since_s + wait_s - time.monotonic()
        if self.queued < min(self.limits.rows, self._expected) and left_s > 0:
            if self._timer is None:
                self._timer = self._loop.call_later(left_s, self._time_is_up)
            return
        self._leave_out_the_dead()
        if self._queue:
            self._begin()

    def _time_is_up(self) -> None:
        self._timer = None
        self._look()

    def _leave_out_the_dead(self) -> None:
        """Requests that ran out of time, or whose client has left, are not computed."""
        for w in self._queue:
            if not w.future.done() and w.gone():
                w.future.set_exception(ClientGone())
        self._queue = deque(w for w in self._queue if not w.future.done())
        self.queued = sum(w.rows for w in self._queue)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._expected = self.queued
        taken = [self._queue.popleft()]
        rows = taken[0].rows
        while self._queue and rows + self._queue[0].rows <= self.limits.rows:
            taken.append(self._queue.popleft())
            rows += taken[-1].rows
        self._running += 1
        self.queued -= rows
        self.batches += 1
        ran = self._threads.submit(self._batch, [w.inputs for w in taken])
        ran.add_done_callback(lambda r: self._loop.call_soon_threadsafe(self._finish, taken, r))
        self._look()

    def _batch(self, requests: Sequence[Arrays]) -> _Ran:
        """In a thread of the model's."""
        begin_ns = time.perf_counter_ns()
        outcomes = self._together(requests)
        return _Ran(outcomes, begin_ns, time.perf_counter_ns())

    def _together(self, requests: Sequence[Arrays]) -> tuple[Arrays | HandTorchError, ...]:
        joined = tuple(_joined(parts) for parts in zip(*requests, strict=True))
        try:
            outputs = self._compute(joined)
        except HandTorchError as e:
            if len(requests) == 1:
                return (e,)
            return tuple(self._together([r])[0] for r in requests)
        ends = np.cumsum([len(r[0]) for r in requests])
        return tuple(tuple(o[end - len(r[0]):end] for o in outputs)
                     for r, end in zip(requests, ends, strict=True))

    def _finish(self, taken: Sequence[_Waiting], ran: Future[_Ran]) -> None:
        self._running -= 1
        rows = sum(w.rows for w in taken)
        failed = ran.exception()
        if failed is not None:
            for w in taken:
                if not w.future.done():
                    w.future.set_exception(failed)
        else:
            result = ran.result()
            took_s = (result.end_ns - result.begin_ns) / 1e9
            each_s = took_s / rows
            self._cost.saw(rows, took_s)
            self._sample_s = 0.8 * self._sample_s + 0.2 * each_s if self._sample_s else each_s
            for w, outcome in zip(taken, result.outcomes, strict=True):
                if w.future.done():
                    continue
                if isinstance(outcome, HandTorchError):
                    w.future.set_exception(outcome)
                else:
                    w.future.set_result(Done(outcome, result.begin_ns, result.end_ns, rows))
        self._look()


def _joined(parts: Sequence[Array]) -> Array:
    """Rows one after the other, in memory that may be written: torch warns of any other."""
    return np.concatenate(parts)
