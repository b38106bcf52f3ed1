"""When sensors are due: absolute deadlines with dither, and those that were missed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from handtorch.meters.signal import FAST_NS, MEDIUM_NS, SLOW_NS, Sensor

DITHER = 0.3                            # of a period, so that no step keeps time with the sampler
PERIODS = (FAST_NS, MEDIUM_NS, SLOW_NS)
_DRAWN = 1021                           # beforehand: drawing costs more than all else of a wake-up


class Pace:
    """What all threads of a sampler look at."""

    def __init__(self, *, shared: bool = False) -> None:
        """In a process that is shared, sleepers are woken at the end; one of its own just ends."""
        self.over, self.stretch = False, 1
        self.groups: list[Group] = []               # all there ever were, for their counts
        self._ended = threading.Event()
        self.sleep: Callable[[float], object] = self._ended.wait if shared else time.sleep

    def end(self) -> None:
        self.over = True
        self._ended.set()


class Group:
    """Sensors that are due at the same times: every period after the start, give or take dither."""

    def __init__(self, rate: int, sensors: Sequence[tuple[Sensor, int]], pace: Pace,
                 now_ns: int) -> None:
        self.rate, self.sensors = rate, tuple(sensors)
        self.pace = pace
        draw = random.Random(rate)
        self._dither = [draw.uniform(-DITHER, DITHER) for _ in range(_DRAWN)]
        self.due_ns = now_ns
        self.met, self.missed = 0, 0
        self.period_ns, self._start_ns, self._at, self._stretched = PERIODS[rate], now_ns, 0, 1
        pace.groups.append(self)
        self._rebase(now_ns)

    def advance(self, now_ns: int) -> None:
        """A deadline was met; the next that is not over yet is due, those between were missed."""
        self.met += 1
        if self.pace.stretch == self._stretched:
            at = self._at = self._at + 1
            due_ns = self._start_ns + int((at + self._dither[at % _DRAWN]) * self.period_ns)
            if due_ns > now_ns:                     # as a rule
                self.due_ns = due_ns
                return
            self.missed += 1
        else:
            self._rebase(now_ns)
        self.missed += self._skip(now_ns)

    def _skip(self, now_ns: int) -> int:
        over, period = 0, self.period_ns
        while True:
            ahead = max(1, (now_ns - self._start_ns) // period - self._at - 1)
            self._at += ahead                       # at once over those that are long gone
            dither = self._dither[self._at % _DRAWN]
            self.due_ns = self._start_ns + int((self._at + dither) * period)
            if self.due_ns > now_ns:
                return over + ahead - 1
            over += ahead

    def _rebase(self, now_ns: int) -> None:
        """Once a second is never stretched: it costs nothing, and tells of the clocks."""
        self._start_ns, self._at, self._stretched = now_ns, 0, self.pace.stretch
        self.period_ns = PERIODS[self.rate]
        if self.period_ns < SLOW_NS:
            self.period_ns *= self._stretched
