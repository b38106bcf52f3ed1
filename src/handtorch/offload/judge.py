"""Days played back from measured tables, and what each way of choosing makes of them.

Knows nothing of how a policy works: only the data classes of `place`, `days` and `table` are
shared. Everything that comes out is simulated, from latencies that were measured."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from handtorch.offload.days import Course, Day
from handtorch.offload.place import Decision, Load
from handtorch.offload.table import Level, Table

EVERY_S, SPAN_S = 0.05, 0.25            # how a load is read: see `watch`
THRESHOLD = 0.70                        # of the device's load: "high" in the MobiRNN paper
CPU, DEVICE = 0, 1


class Chooser(Protocol):
    def choose(self, loads: Sequence[Load], now_s: float) -> Decision: ...

    def learn(self, decision: Decision, latency_s: float, now_s: float) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """One way of choosing over one day."""

    total_s: float
    calls: int
    switches: int
    on_device: int
    probes: int = 0


@dataclass(frozen=True)
class Verdict:
    """All ways over one day: those of `WAYS` and the choosers', by name."""

    day: str
    outcomes: dict[str, Outcome]
    mean_oracle_s: float                # of an oracle that knows the loads, not each call's luck

    def over_oracle(self, name: str = "ours") -> float:
        """1.05: five percent more time than the oracle, which knows both latencies of each call."""
        return self.outcomes[name].total_s / self.outcomes["oracle"].total_s

    def over_mean_oracle(self, name: str = "ours") -> float:
        return self.outcomes[name].total_s / self.mean_oracle_s

    def over_fixed(self, name: str = "ours") -> float:
        """Against the better of always-CPU and always-device."""
        fixed = min(self.outcomes[k].total_s for k in ("always cpu", "always device"))
        return self.outcomes[name].total_s / fixed


class SimulatedPlace:
    """A place that takes as long as the table says under the day's load of this moment."""

    def __init__(self, table: Table, course: Course, draw: random.Random) -> None:
        self._levels = sorted(table.known, key=lambda level: level.held or 0.0)
        self._held = [level.held or 0.0 for level in self._levels]
        self._sorted = [sorted(level.latencies_s) for level in self._levels]
        self._means = [sum(s) / len(s) for s in self._sorted]
        self._off = [_offsets(level) for level in self._levels]
        self._course, self._draw = course, draw
        self._read_at, self._reading = -1.0, Load(None, "nothing was read yet")

    def latency_s(self, at_s: float) -> float:
        """A call at this moment: a random quantile of what was measured at the loads around."""
        now, luck = self._course.at(at_s), self._draw.random()
        below, part = self._between(now.share)
        return now.slow * sum(weight * _quantile(self._sorted[k], luck)
                              for k, weight in ((below, 1 - part), (below + 1, part)))

    def mean_s(self, at_s: float) -> float:
        """The mean of all calls that this moment could give."""
        now = self._course.at(at_s)
        below, part = self._between(now.share)
        return now.slow * ((1 - part) * self._means[below] + part * self._means[below + 1])

    def load(self, at_s: float) -> Load:
        """As it would be read: every 50 ms, the mean of a quarter second, off as measured."""
        read_at = at_s - at_s % EVERY_S
        if read_at != self._read_at:
            steps = round(SPAN_S / EVERY_S)
            past = [self._course.at(max(0.0, read_at - k * EVERY_S)).share for k in range(steps)]
            true = sum(past) / steps
            near = min(range(len(self._held)), key=lambda k: abs(self._held[k] - true))
            off = self._draw.choice(self._off[near]) if self._off[near] else 0.0
            self._read_at, self._reading = read_at, Load(min(1.0, max(0.0, true + off)))
        return self._reading

    def _between(self, share: float) -> tuple[int, float]:
        last = len(self._held) - 1
        below = min(max(bisect_right(self._held, share) - 1, 0), last - 1)
        low, high = self._held[below], self._held[below + 1]
        return below, min(1.0, max(0.0, (share - low) / (high - low)))


def _offsets(level: Level) -> list[float]:
    return [r - (level.held or 0.0) for r in level.readings if r is not None]


def _quantile(ordered: Sequence[float], luck: float) -> float:
    x = luck * (len(ordered) - 1)
    k = min(int(x), len(ordered) - 2)
    return ordered[k] + (x - k) * (ordered[k + 1] - ordered[k])


@dataclass(frozen=True)
class Moment:
    """What the judge knows of one call and a policy does not."""

    at_s: float
    loads: tuple[Load, Load]
    latencies_s: tuple[float, float]
    means_s: tuple[float, float]


def script(day: Day, tables: tuple[Table, Table]) -> list[Moment]:
    """Every call of the day with what both places would take, the same for all ways of choosing."""
    places = [SimulatedPlace(table, Course(day, name), random.Random(f"{day.seed} {name} calls"))
              for table, name in zip(tables, ("cpu", "device"), strict=True)]
    moments, at = [], 0.0
    while at < day.seconds:
        cpu, device = places
        moments.append(Moment(at, (cpu.load(at), device.load(at)),
                              (cpu.latency_s(at), device.latency_s(at)),
                              (cpu.mean_s(at), device.mean_s(at))))
        at += day.every_s
    return moments


WAYS: dict[str, Callable[[Moment], int]] = {
    "always cpu": lambda m: CPU,
    "always device": lambda m: DEVICE,
    "70 % rule": lambda m: CPU if (m.loads[DEVICE].share or 0.0) > THRESHOLD else DEVICE,
    "oracle": lambda m: CPU if m.latencies_s[CPU] < m.latencies_s[DEVICE] else DEVICE,
}


def judge(day: Day, tables: tuple[Table, Table], choosers: Mapping[str, Chooser]) -> Verdict:
    """All ways, and these, over the same calls. Simulated."""
    moments = script(day, tables)
    outcomes = {name: outcome([way(m) for m in moments], moments) for name, way in WAYS.items()}
    outcomes |= {name: played(chooser, moments) for name, chooser in choosers.items()}
    mean = sum(m.latencies_s[CPU if m.means_s[CPU] < m.means_s[DEVICE] else DEVICE]
               for m in moments)
    return Verdict(day.name, outcomes, mean)


def played(chooser: Chooser, moments: Sequence[Moment]) -> Outcome:
    """What a chooser makes of the day; it is told the latency of the place it chose, no other."""
    chosen, probes = [], 0
    for m in moments:
        decision = chooser.choose(m.loads, m.at_s)
        latency = m.latencies_s[decision.chosen]
        chooser.learn(decision, latency, m.at_s + latency)
        chosen.append(decision.chosen)
        probes += decision.kind == "probe"
    return outcome(chosen, moments, probes)


def outcome(chosen: Sequence[int], moments: Sequence[Moment], probes: int = 0) -> Outcome:
    total = sum(m.latencies_s[k] for m, k in zip(moments, chosen, strict=True))
    switches = sum(a != b for a, b in itertools.pairwise(chosen))
    return Outcome(total, len(chosen), switches, sum(chosen), probes)
