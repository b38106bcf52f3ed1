"""When to follow a decision, when to stay, and when to look at a place that was not seen for long.

As `handtorch.offload` does for calls on one machine: hysteresis, for noise must not make a choice
flutter, and probes that are paid for, for who never looks at a place does not learn that it has
become better. Costs are seconds or joules, whatever the target asks for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from handtorch.place.decide import Decision, Judged
from handtorch.place.situation import Candidate


@dataclass(frozen=True)
class Rules:
    """When to leave a way, and when to look at another; the shares are those of `offload`."""

    leave: float = 0.06             # another way must be so much better ...
    times: int = 2                  # ... at so many successive decisions,
    at_once: float = 0.12           # or so much better, once
    probe_share: float = 0.01       # all probes together cost no more of all than this


RULES = Rules()


@dataclass(frozen=True)
class Choice:
    """`kind`: stay, switch, wait (another is better, not yet for long enough), probe."""

    kind: str
    candidate: Candidate
    usual_cost: float | None
    detail: str


class Policy:
    """Choose, do, `paid`: one after the other."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self._usual: str | None = None
        self._streak, self._saved = 0, 0.0

    def choose(self, decision: Decision, stale: Collection[str] = ()) -> Choice:
        """What to do now; `stale` are names of ways that were not seen for long."""
        usual, kind, detail = self._settle(decision)
        cost = decision.target.wanted(usual.candidate).value
        probe = self._probe(decision, usual, stale)
        if probe is not None:
            return Choice("probe", probe, cost, f"{probe.name} was not seen for long, and a look "
                          "costs no more than what was put aside for it")
        return Choice(kind, usual.candidate, cost, detail)

    def paid(self, choice: Choice, cost: float) -> None:
        """What it took in the end."""
        if choice.kind == "probe":
            self._saved -= max(0.0, cost - (choice.usual_cost or cost))
        else:
            self._saved += self.rules.probe_share * cost

    def _settle(self, decision: Decision) -> tuple[Judged, str, str]:
        """The way in use is the right one afterwards; why."""
        best = decision.judged[0]
        usual = next((j for j in decision.judged if j.candidate.name == self._usual
                      and not j.forbidden), None)
        if usual is None:
            return self._switched(best, "stay" if self._usual is None else "switch",
                                  f"{self._usual} cannot be taken now" if self._usual else "")
        if usual is best:
            self._streak = 0
            return usual, "stay", ""
        mine, theirs = (decision.target.wanted(j.candidate).value for j in (usual, best))
        name, old = best.candidate.name, usual.candidate.name
        if usual.violation > best.violation or not mine or theirs is None:
            return self._switched(best, "switch", f"{old} does not keep the limits as well")
        gain = 1 - theirs / mine
        if gain < self.rules.leave:
            self._streak = 0
            return usual, "stay", f"{name} is only {gain:.1%} better"
        self._streak += 1
        if gain < self.rules.at_once and self._streak < self.rules.times:
            return usual, "wait", (f"{name} is {gain:.0%} better, {self._streak} of "
                                   f"{self.rules.times} times")
        return self._switched(best, "switch", f"{name} is {gain:.0%} better than {old}")

    def _switched(self, best: Judged, kind: str, detail: str) -> tuple[Judged, str, str]:
        self._usual, self._streak = best.candidate.name, 0
        return best, kind, detail

    def _probe(self, decision: Decision, usual: Judged, stale: Collection[str]
               ) -> Candidate | None:
        """The best stale way, if it keeps the limits and its cost above the usual is put aside."""
        cost = decision.target.wanted(usual.candidate).value
        if usual.candidate.name in stale or cost is None:
            return None                         # it is being looked at anyway
        for judged in decision.judged:
            there = decision.target.wanted(judged.candidate).value
            if judged.candidate.name in stale and not judged.forbidden and there is not None:
                fits = judged.violation <= usual.violation
                return judged.candidate if fits and there - cost <= self._saved else None
        return None
