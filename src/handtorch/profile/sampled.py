"""What a sampler gave: a series for each signal, and what is missing."""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from handtorch.meters import ring
from handtorch.meters.sampler import OWN
from handtorch.meters.signal import FAST_NS, MEDIUM_NS, SLOW_NS, Absent, Signal
from handtorch.profile.energy.model import Ints, Series

How = Literal["process", "thread", "none"]
SILENT_NS = 250_000_000                 # without any reading, if some are due every 10 or 100 ms
SUSPENDED_S = 0.020                     # more than the clocks can be read apart by chance
_SLOT = np.dtype([("before", "=i8"), ("after", "=i8"), ("value", "=f8"), ("signal", "=u2"),
                  ("reason", "=u2"), ("number", "=u4")])
assert _SLOT.itemsize == ring.SLOT.size


@dataclass(frozen=True)
class Ending:
    """How a sampler began and ended, as the process that trains saw it."""

    not_started: str = ""
    in_thread: str = ""                 # why
    stopped_ns: int = 0                 # when it was asked to end
    exit_code: int | None = None
    said: str = ""                      # the last line of its complaints
    killed: bool = False                # because it did not end when asked
    gone: bool = True

    def death(self) -> str:
        """In words; empty if it was not one."""
        if self.exit_code is None or self.killed:
            return ""
        return _exit(self.exit_code) + (f": {self.said}" if self.said else "")


@dataclass(frozen=True)
class Interval:
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Deadlines:
    """Of the sensors read every `period_ns`: how many there were, and how many were skipped."""

    period_ns: int
    due: int
    missed: int


@dataclass(frozen=True)
class Failed:
    """A signal some of whose readings gave no value."""

    signal: Signal
    missing: int
    readings: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Troubles:
    """What is missing, and why. All times are on CLOCK_MONOTONIC."""

    began_ns: int = 0
    not_started: str = ""
    in_thread: str = ""                 # why it was not a process
    died: str = ""                      # by which signal or exit code
    killed: bool = False                # it did not end when asked
    gone: bool = True
    ended: str = ""                     # by itself, early, and why
    last_ns: int = 0                    # of its last reading
    silent: tuple[Interval, ...] = ()   # no reading of anything
    suspended: tuple[Interval, ...] = ()
    deadlines: tuple[Deadlines, ...] = ()
    lost: int = 0                       # readings for which there was no room
    torn: int = 0                       # readings that were counted and cannot be read
    failed: tuple[Failed, ...] = ()
    absent: tuple[Absent, ...] = ()
    slowed: tuple[tuple[int, float], ...] = ()      # since when, periods longer by what factor
    cpu_s: float | None = None          # of the sampler, with its start
    cpu_share: float | None = None      # of one core, without its start

    def lines(self) -> list[str]:
        """One sentence for each; absent sensors and its own cost are no trouble."""
        return [*self._of_its_life(), *self._of_readings()]

    def _of_its_life(self) -> list[str]:
        said = []
        if self.not_started:
            said.append(f"no sampling: {self.not_started}")
        if self.in_thread:
            said.append(f"sampled by a thread of the training: {self.in_thread}")
        if self.died:
            said.append(f"the sampler died ({self.died}) after {self._at(self.last_ns)}")
        if self.killed:
            said.append("the sampler did not end when asked and was killed" if self.gone else
                        "the sampler did not end when asked and could not be killed")
        if self.ended:
            said.append(f"the sampler ended after {self._at(self.last_ns)}: {self.ended}")
        said += [f"no reading from {self._at(i.start_ns)} to {self._at(i.end_ns)}"
                 for i in self.silent]
        said += [f"the machine was suspended between {self._at(i.start_ns)} and "
                 f"{self._at(i.end_ns)}" for i in self.suspended]
        return said

    def _of_readings(self) -> list[str]:
        said = [f"{d.missed} of {d.due} deadlines every {d.period_ns / 1e6:g} ms were missed"
                for d in self.deadlines if d.missed]
        said += [f"from {self._at(t)} on read {factor:g} times more rarely, to keep to its share "
                 f"of a core" for t, factor in self.slowed]
        if self.lost:
            said.append(f"{self.lost} readings had no room in the file")
        if self.torn:
            said.append(f"{self.torn} readings were cut off at the end of the file")
        alike: dict[tuple[str, str], list[Failed]] = {}
        for f in self.failed:
            alike.setdefault((f.signal.meter, "; ".join(f.reasons) or "not a number"), []).append(f)
        for (meter, why), some in alike.items():
            what = (some[0].signal.quantity if len(some) == 1 else f"{len(some)} signals")
            said.append(f"{meter}, {what}: {sum(f.missing for f in some)} of "
                        f"{sum(f.readings for f in some)} readings have no value ({why})")
        return said

    def _at(self, time_ns: int) -> str:
        return f"{(time_ns - self.began_ns) / 1e9:.2f} s"


@dataclass(frozen=True)
class Readings:
    """`own` is what the sampler said of itself: its time, and the other clocks against ours."""

    series: tuple[Series, ...]
    how: How
    troubles: Troubles
    own: tuple[Series, ...] = ()

    def of(self, meter: str, quantity: str) -> Series:
        """The one of that name; KeyError if there is none."""
        for s in (*self.series, *self.own):
            if (s.signal.meter, s.signal.quantity) == (meter, quantity):
                return s
        raise KeyError(f"{meter} {quantity}")


def without_readings(ending: Ending, how: How, why: str) -> Readings:
    """There is no file, or none that can be read."""
    why = ending.not_started or (ending.death() if ending.exit_code else why)
    return Readings((), how, Troubles(not_started=why, in_thread=ending.in_thread,
                                      killed=ending.killed, gone=ending.gone))


def joined(recorded: ring.Recorded, ending: Ending, how: How, began_ns: int, now_ns: int
           ) -> Readings:
    """The columns of each signal, in order of time, and what befell them until now."""
    slots = np.frombuffer(recorded.slots, _SLOT)
    order = np.argsort(slots["signal"], kind="stable")
    table = [Signal(**s) for s in recorded.table["signals"]]
    edges = np.searchsorted(slots["signal"][order], np.arange(len(table) + 1))
    series, failed = [], []
    for i, signal in enumerate(table):
        rows = slots[order[edges[i]:edges[i + 1]]]
        middle = (rows["before"] + rows["after"]) // 2
        rows = rows[np.argsort(middle, kind="stable")]
        series.append(Series(signal, np.sort(middle), (rows["after"] - rows["before"] + 1) // 2,
                             rows["value"].copy()))
        if missing := int(np.isnan(rows["value"]).sum()):
            indices = [int(j) for j in np.unique(rows["reason"]) if j]
            failed.append(Failed(signal, missing, len(rows),
                                 tuple(_reason(recorded.reasons, j) for j in indices)))
    own = tuple(s for s in series if s.signal.meter == OWN)
    troubles = _troubles(recorded, ending, own, failed, began_ns, now_ns,
                         np.unique(slots["after"]))
    return Readings(tuple(s for s in series if s.signal.meter != OWN), how, troubles, own)


def _troubles(recorded: ring.Recorded, ending: Ending, own: Sequence[Series],
              failed: Sequence[Failed], began_ns: int, now_ns: int, at_ns: Ints) -> Troubles:
    fields = recorded.fields
    named = {s.signal.quantity: s for s in own}
    running = fields["state"] == ring.RUNNING
    until_ns = now_ns if running or ending.killed else max(fields["state_ns"], began_ns)
    cpu = named["own_cpu_s"]
    elapsed_s = (cpu.time_ns[-1] - cpu.time_ns[0]) / 1e9 if len(cpu.time_ns) > 1 else 0.0
    stretch = named["stretch_ratio"]
    grew = np.flatnonzero(np.diff(stretch.value, prepend=1.0) > 0)
    return Troubles(
        began_ns=began_ns, in_thread=ending.in_thread, died=ending.death() if running else "",
        killed=ending.killed, gone=ending.gone, ended=_ended(fields),
        last_ns=fields["heartbeat_ns"],
        silent=_silent(at_ns, began_ns, until_ns, _shortest_ns(recorded)),
        suspended=_suspended(named["boottime_ahead_s"]),
        deadlines=tuple(Deadlines(period_ns, fields[f"due_{rate}"], fields[f"missed_{rate}"])
                        for rate, period_ns in zip(ring.RATES, (FAST_NS, MEDIUM_NS, SLOW_NS),
                                                   strict=True) if fields[f"due_{rate}"]),
        lost=fields["lost"], torn=recorded.torn, failed=tuple(failed),
        absent=tuple(Absent(**a) for a in recorded.table["absent"]),
        slowed=tuple((int(stretch.time_ns[i]), float(stretch.value[i])) for i in grew),
        cpu_s=fields["cpu_ns"] / 1e9,
        cpu_share=float(cpu.value[-1] - cpu.value[0]) / elapsed_s if elapsed_s > 0 else None)


def _ended(fields: dict[str, int]) -> str:
    if fields["state"] == ring.FULL:
        error = fields["errno"]
        return os.strerror(error) if error else "its file has reached the size allowed"
    if fields["state"] == ring.TOO_LONG:
        return "the time allowed was over"
    if fields["state"] == ring.ORPHANED:
        return "the process that started it was gone"
    return ""


def _shortest_ns(recorded: ring.Recorded) -> int:
    every = min(int(s["every_ns"]) for s in recorded.table["signals"])
    return every if every >= SLOW_NS else every * recorded.fields["stretch"]


def _silent(at_ns: Ints, began_ns: int, until_ns: int, shortest_ns: int) -> tuple[Interval, ...]:
    """Gaps too long to be chance."""
    edges: NDArray[np.int64] = np.concatenate(([began_ns], at_ns, [max(until_ns, began_ns)]))
    gaps = np.flatnonzero(np.diff(edges) > max(SILENT_NS, 5 * shortest_ns // 2))
    return tuple(Interval(int(edges[i]), int(edges[i + 1])) for i in gaps)


def _suspended(ahead: Series) -> tuple[Interval, ...]:
    """CLOCK_BOOTTIME goes on while a machine sleeps, CLOCK_MONOTONIC does not."""
    jumps = np.flatnonzero(np.diff(ahead.value) > SUSPENDED_S)
    return tuple(Interval(int(ahead.time_ns[i]), int(ahead.time_ns[i + 1])) for i in jumps)


def _reason(reasons: Sequence[str], index: int) -> str:
    """A reader may see a slot before its text."""
    return reasons[index] if index < len(reasons) else "unknown"


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signals.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
