"""Reads sensors again and again into a ring: the whole life of the sampler's process.

The main thread obeys and watches; it reads nothing, so that a sensor that does not answer can
keep neither the process alive nor the others from being read. One thread reads all sensors that
answer at once, and each that waits for hardware has its own."""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from handtorch.meters.pace import PERIODS, Group, Pace
from handtorch.meters.ring import ASKED, ORPHANED, RATES, TOO_LONG, RingWriter
from handtorch.meters.signal import SLOW_NS, Found, Sensor, Signal, Value

BUDGET = 0.02                           # of one core
BUDGET_NS = SLOW_NS                     # over which it is looked at
FLUSH_NS = 80_000_000                   # a sampler that is killed takes with it what it read since
MOST_STRETCH = 64
PULSE_S = 1.0
OWN = "sampler"                         # the meter of what a sampler says of itself
_NICE = -5
_NEVER_NS = 1 << 62
_BY_DUE = attrgetter("due_ns")
# A sensor does not raise for what a machine may do. If it does, that is our bug in one family, and
# no reason to lose all others: it becomes the reason of the readings that are missing.
_BUGS = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


# A sensor, the index of its first signal, the time before and after, and what it gave.
Kept = tuple[Sensor, int, int, int, Sequence[Value]]


class Own:
    """The other clocks against CLOCK_MONOTONIC, and what the sampler takes."""

    waits = False

    def __init__(self, cpu_ns: Callable[[], int], pace: Pace) -> None:
        self._cpu_ns, self._pace = cpu_ns, pace
        self._clocks = (time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)
        self.signals = (*(Signal(OWN, f"{clock}_ahead_s", "gauge", "machine", SLOW_NS)
                          for clock in ("monotonic_raw", "boottime", "realtime")),
                        Signal(OWN, "own_cpu_s", "counter", OWN, SLOW_NS),
                        Signal(OWN, "stretch_ratio", "gauge", OWN, SLOW_NS))

    def read(self) -> Sequence[Value]:
        return (*(self._ahead(c) / 1e9 for c in self._clocks), self._cpu_ns() / 1e9,
                float(self._pace.stretch))

    def close(self) -> None:
        pass

    @staticmethod
    def _ahead(clock: int) -> float:
        """Of three tries the one that nothing came between."""
        tries = []
        for _ in range(3):
            before = time.monotonic_ns()
            then = time.clock_gettime_ns(clock)
            after = time.monotonic_ns()
            tries.append((after - before, then - (before + after) / 2))
        return min(tries)[1]


class Course:
    """One thread and the groups it reads, until all is over.

    The thread first says what it reads, then looks whether that is still its own to read; who
    takes a sensor away from it first takes it, then looks whether it was still being read. So no
    lock is needed, which at every wake-up would be felt: caches are cold then."""

    def __init__(self, ring: RingWriter, groups: Sequence[Group], pace: Pace, *, timed: bool
                 ) -> None:
        self._ring, self._groups, self._pace, self._timed = ring, tuple(groups), pace, timed
        self._reading: tuple[int, Group, Sensor, int] | None = None
        self._told: tuple[int, Group, Sensor, int] | None = None
        self._kept: deque[Kept] = deque()
        self.cpu_ns = 0
        self.thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def hangs(self, now_ns: int, silent_s: float) -> list[Group]:
        """A reading that takes longer than that is noted. Of the course only its sensor is left;
        the groups that it had besides are handed back, for another course."""
        now, groups = self._reading, self._groups
        if now is None or now is self._told or now_ns - now[0] < silent_s * 1e9:
            return []
        began_ns, group, sensor, first = self._told = now
        others = [g for g in groups if g is not group]
        rest = [pair for pair in group.sensors if pair[0] is not sensor]
        if rest:
            others.append(Group(group.rate, rest, group.pace, began_ns))
        if others:
            self._groups = (Group(group.rate, [(sensor, first)], group.pace, began_ns),)
            if self._reading is not now:
                self._groups = groups           # it came back in this very moment
                return []
        self.write()
        reason = f"no answer within {silent_s:g} s"
        self._ring.add(first, began_ns, now_ns, [reason] * len(sensor.signals))
        return others

    def count_hanging(self, now_ns: int) -> None:
        """The deadlines that passed while a reading hangs, for the count at the end."""
        if (now := self._reading) is not None:
            began_ns, group, _, _ = now
            over = (now_ns - began_ns) // group.period_ns
            group.missed += 1 + over if over else 0

    def _run(self) -> None:
        """At a wake-up caches are cold, and every function and object that is touched costs a
        microsecond. So a reading is only kept, and written with others (`FLUSH_NS`)."""
        clock_ns, pace, keep, read = time.monotonic_ns, self._pace, self._kept.append, self._read
        sleep, written_ns = pace.sleep, clock_ns()
        while not pace.over:
            groups = self._groups
            group = min(groups, key=_BY_DUE)
            others_ns = min((g.due_ns for g in groups if g is not group), default=_NEVER_NS)
            while group.due_ns <= others_ns:        # as a rule many times: others are due rarely
                wait_ns = group.due_ns - clock_ns()
                if wait_ns > 0:
                    sleep(wait_ns / 1e9)
                for sensor, first in group.sensors:
                    self._reading = (clock_ns(), group, sensor, first)
                    if self._groups is not groups or pace.over:
                        break
                    got = read(sensor, first)
                    keep(got)
                self._reading = None
                if self._groups is not groups or pace.over:
                    break
                after_ns = got[3]
                group.advance(after_ns)
                if group.rate or after_ns - written_ns > FLUSH_NS:
                    written_ns = after_ns
                    self.write()
                if self._timed:
                    self.cpu_ns = time.thread_time_ns()
        self.write()

    def read_once_more(self) -> None:
        """After all is over, so that what happened until now lies between two readings. Not of a
        sensor that is being read, nor of one that may wait."""
        if self._reading is None:
            for group in self._groups:
                for sensor, first in group.sensors:
                    if not sensor.waits:
                        self._kept.append(self._read(sensor, first))

    @staticmethod
    def _read(sensor: Sensor, first: int) -> Kept:
        before_ns = time.monotonic_ns()
        try:
            values = sensor.read()
        except _BUGS as e:
            values = [f"the sensor failed: {type(e).__name__}: {e}"] * len(sensor.signals)
        return sensor, first, before_ns, time.monotonic_ns(), values

    def write(self) -> None:
        """What was read is in the file. Called by the thread itself, while it hangs, or at the end.
        """
        while True:
            try:
                sensor, first, before_ns, after_ns, values = self._kept.popleft()
            except IndexError:                  # empty, perhaps because both do it at the end
                return
            wanted = len(sensor.signals)
            if len(values) != wanted:
                values = [f"the sensor failed: {len(values)} values for {wanted} signals"] * wanted
            self._ring.add(first, before_ns, after_ns, values)


class Orders(Protocol):
    """Where a sampler hears that it shall end."""

    def wait(self, seconds: float) -> int:
        """How it shall end (ASKED, ORPHANED), or 0 when the time is over."""


class Pipe:
    """A byte asks to end; so does the end of the pipe, which comes with the parent's. A process
    forked from the parent may keep the pipe open, so our parent is looked at, too."""

    def __init__(self, fd: int, parent: int) -> None:
        self._fd, self._parent = fd, parent

    def wait(self, seconds: float) -> int:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if ready:
            return ASKED if os.read(self._fd, 1) else ORPHANED
        return 0 if os.getppid() == self._parent else ORPHANED


class Sampler:
    """From `run` on, readings of every sensor go into the ring."""

    def __init__(self, path: Path, found: Found, *, whole_process: bool, most_bytes: int,
                 limit_s: float, silent_s: float, nice: int | None = None) -> None:
        """Raises OSError where the file cannot be made."""
        self._whole, self._silent_s = whole_process, silent_s
        self._pace = Pace(shared=not whole_process)
        self._began_ns = time.monotonic_ns()
        self._limit_ns = self._began_ns + int(limit_s * 1e9)
        self._own = Own(self.cpu_ns, self._pace)
        self._sensors: list[tuple[Sensor, int]] = []
        signals: list[Signal] = []
        for sensor in (self._own, *found.sensors):
            self._sensors.append((sensor, len(signals)))
            signals += sensor.signals
        assert len(signals) < 1 << 16, "a slot has two bytes for the signal"
        table = {"signals": [asdict(s) for s in signals], "nice": nice,
                 "absent": [asdict(a) for a in found.absent]}
        self._ring = RingWriter(path, table, self._began_ns, most_bytes=most_bytes)
        self._courses: list[Course] = []
        self._pulse_ns = self._began_ns
        self._checked = (self._began_ns, self.cpu_ns(), False)

    def cpu_ns(self) -> int:
        """What it has used until now; of a process of its own that is all of it."""
        return time.process_time_ns() if self._whole else sum(c.cpu_ns for c in self._courses)

    def run(self, orders: Orders) -> int:
        """Until told to end, until `limit_s`, or until there is no more room; gives the state."""
        now_ns, at_once = time.monotonic_ns(), [p for p in self._sensors if not p[0].waits]
        self._start(self._grouped(at_once, now_ns))
        for pair in self._sensors:
            if pair[0].waits:
                self._start(self._grouped([pair], now_ns))
        state = 0
        while not state and not self._ring.full:
            state = orders.wait(PULSE_S)
            now_ns = time.monotonic_ns()
            self._write_counts()
            if now_ns - self._pulse_ns < 3 * PULSE_S * 1e9:     # else we were stopped ourselves
                for course in tuple(self._courses):
                    if others := course.hangs(now_ns, self._silent_s):
                        self._start(others)
            self._pulse_ns = now_ns
            self._keep_to_budget(now_ns)
            if not state and now_ns > self._limit_ns:
                state = TOO_LONG
        self._end(state)
        return state

    def _end(self, state: int) -> None:
        self._pace.end()
        before_ns = time.monotonic_ns()
        values = self._own.read()
        now_ns = time.monotonic_ns()
        for course in self._courses:
            course.read_once_more()
            course.write()
            course.count_hanging(now_ns)
        self._ring.add(0, before_ns, now_ns, values)
        self._write_counts()
        self._ring.end(state, now_ns)

    def _write_counts(self) -> None:
        """Now and then, from here: at every deadline it would cost more than the count is worth."""
        counts = {"cpu_ns": self.cpu_ns()}
        for rate, name in enumerate(RATES):
            groups = [g for g in self._pace.groups if g.rate == rate]
            counts[f"missed_{name}"] = sum(g.missed for g in groups)
            counts[f"due_{name}"] = sum(g.met for g in groups) + counts[f"missed_{name}"]
        self._ring.put(**counts)

    def close(self) -> bool:
        """For a sampler that shares its process: whether every thread ended and all was closed."""
        for course in self._courses:
            course.thread.join(PULSE_S)
        if any(c.thread.is_alive() for c in self._courses):
            return False
        for sensor, _ in self._sensors:
            sensor.close()
        self._ring.close()
        return True

    def _start(self, groups: Sequence[Group]) -> None:
        course = Course(self._ring, groups, self._pace, timed=not self._whole)
        self._courses.append(course)
        course.thread.start()

    def _grouped(self, pairs: Sequence[tuple[Sensor, int]], now_ns: int) -> list[Group]:
        """A sensor is read as often as its fastest signal wants, all signals each time."""
        by_rate: dict[int, list[tuple[Sensor, int]]] = {}
        for sensor, first in pairs:
            if sensor.signals:
                every = min(s.every_ns for s in sensor.signals)
                rate = max((i for i, p in enumerate(PERIODS) if p <= every), default=0)
                by_rate.setdefault(rate, []).append((sensor, first))
        return [Group(rate, some, self._pace, now_ns) for rate, some in by_rate.items()]

    def _keep_to_budget(self, now_ns: int) -> None:
        """Over budget in two seconds, one after the other: half as often from now on, for good."""
        since_ns, cpu_ns, was_over = self._checked
        if now_ns - since_ns < BUDGET_NS:
            return
        used = self.cpu_ns()
        over = used - cpu_ns > BUDGET * (now_ns - since_ns)
        if over and was_over and self._pace.stretch < MOST_STRETCH:
            self._pace.stretch *= 2
            over = False
            self._ring.put(stretch=self._pace.stretch)
        self._checked = (now_ns, used, over)


def search(name: str, root: Path, pid: int) -> Found:
    """What `module:function` finds."""
    module, _, function = name.partition(":")
    found = getattr(import_module(module), function)(root, pid)
    assert isinstance(found, Found), name
    return found


def main(told: Mapping[str, Any]) -> None:
    """The child's life, as `Sampling` tells it; ends the process."""
    sys.setswitchinterval(0.001)
    gc.freeze()                         # a reading leaves nothing behind that goes in circles
    gc.disable()
    nice = None
    with suppress(OSError):             # only root may; without it, deadlines are missed under load
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        nice = _NICE
        # A nice value counts only among the processes of one session, where the kernel groups them.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    found = search(told["search"], Path(told["root"]), told["pid"])
    sampler = Sampler(Path(told["file"]), found, whole_process=True, nice=nice,
                      most_bytes=told["most_bytes"], limit_s=told["limit_s"],
                      silent_s=told["silent_s"])
    sampler.run(Pipe(0, told["parent"]))
    os._exit(0)                         # threads may be at work: nothing is taken from under them
