"""The choice of a place for each call: estimates, hysteresis, and probes that are paid for.

Numbers here were set on the days for tuning (`days.py`) and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.offload.estimate import Estimate
from handtorch.offload.place import Decision, Load


@dataclass(frozen=True)
class Rules:
    """When to leave a place, and when to look at another."""

    first_calls: int = 3            # of each place, before anything is compared; the very first
                                    # compiles, allocates, wakes threads, and teaches nothing
    leave: float = 0.06             # another place must be so much better ...
    times: int = 2                  # ... at so many successive decisions,
    at_once: float = 0.12           # or so much better, once
    stale_s: float = 1.0            # a place not seen for so long ...
    stale_calls: int = 20           # ... and for so many calls is looked at again ...
    probe_share: float = 0.005      # ... if all probes together cost no more of all time than this


RULES = Rules()


class Policy:
    """Choose, call, learn: one after the other, for each call. Not for several threads at once.

    The cost of a probe is what it is expected to take longer than the place in use; it is made
    only out of what has been saved up, `probe_share` of the time of every call, and afterwards
    its true cost is taken off. So the probes of any stretch of calls cost that share of it at most,
    and one probe more."""

    def __init__(self, names: Sequence[str], rules: Rules = RULES) -> None:
        self.names, self.rules = tuple(names), rules
        self._estimates = [Estimate() for _ in names]
        self._usual, self._streak, self._number, self._saved_s = 0, 0, 0, 0.0
        self._made = [0] * len(self.names)          # calls there
        self._used = [0] * len(self.names)          # the number of the last call there

    def choose(self, loads: Sequence[Load], now_s: float) -> Decision:
        """The place for this call; `learn` must be told how long it took."""
        self._number += 1
        estimates = self._estimates
        for k, made in enumerate(self._made):
            if made < self.rules.first_calls:
                known = tuple(e.predict(load.share) if e.count else None
                              for e, load in zip(estimates, loads, strict=True))
                return self._decision("first", k, known, loads)
        predicted = tuple(e.predict(load.share)
                          for e, load in zip(estimates, loads, strict=True))
        if self._number == 1 + self.rules.first_calls * len(estimates):
            self._usual = predicted.index(min(predicted))
        kind, detail = self._settle(predicted)
        probe = self._probe(predicted, now_s)
        if probe is not None:
            cost = max(0.0, predicted[probe] - predicted[self._usual])
            return self._decision("probe", probe, predicted, loads,
                                  f"; not seen for {now_s - estimates[probe].seen_s:.1f} s, a look "
                                  f"costs {1e3 * cost:.3g} of {1e3 * self._saved_s:.3g} ms saved")
        return self._decision(kind, self._usual, predicted, loads, detail)

    def learn(self, decision: Decision, latency_s: float, now_s: float) -> None:
        """What the call of `decision` took; `now_s` is the time at its end."""
        k, usual = decision.chosen, decision.predicted_s[decision.usual]
        if self._made[k]:
            self._estimates[k].learn(decision.loads[k].share, latency_s, now_s)
        self._made[k] += 1
        self._used[k] = decision.number
        if decision.kind == "probe":
            assert usual is not None
            self._saved_s -= max(0.0, latency_s - usual)
        elif decision.kind != "first":
            self._saved_s += self.rules.probe_share * latency_s

    def _settle(self, predicted: tuple[float, ...]) -> tuple[str, str]:
        """The usual place is the right one afterwards; why."""
        best, usual = predicted.index(min(predicted)), self._usual
        gain, name = 1 - predicted[best] / predicted[usual], self.names[best]
        if best == usual or gain < self.rules.leave:
            self._streak = 0
            return "stay", "" if best == usual else f"; {name} is only {gain:.1%} better"
        self._streak += 1
        if gain < self.rules.at_once and self._streak < self.rules.times:
            return "wait", (f"; {name} is {gain:.0%} better, {self._streak} of "
                            f"{self.rules.times} times")
        self._usual, self._streak = best, 0
        return "switch", f"; {name} is {gain:.0%} better than {self.names[usual]}"

    def _probe(self, predicted: tuple[float, ...], now_s: float) -> int | None:
        """The stale place whose probe costs least, if it can be paid."""
        rules, usual = self.rules, self._usual
        found, least, dearest = None, 0.0, 0.0
        for k, estimate in enumerate(self._estimates):
            if k == usual:
                continue
            cost = max(0.0, predicted[k] - predicted[usual])
            dearest = max(dearest, cost)
            stale = (now_s - estimate.seen_s >= rules.stale_s
                     and self._number - self._used[k] >= rules.stale_calls)
            if stale and cost <= self._saved_s and (found is None or cost < least):
                found, least = k, cost
        # No more is saved than two of the dearest probes: what was cheap for an hour must not
        # allow many dear ones in a row.
        self._saved_s = min(self._saved_s, max(2 * dearest, predicted[usual]))
        return found

    def _decision(self, kind: str, chosen: int, predicted: tuple[float | None, ...],
                  loads: Sequence[Load], detail: str = "") -> Decision:
        return Decision(self._number, kind, chosen, self._usual, self.names, predicted,
                        tuple(loads), detail)
