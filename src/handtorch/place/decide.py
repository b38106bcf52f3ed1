"""Which candidate to take for a target, and why. Pure: the same figures, the same answer.

A candidate that the target forbids is never looked at. Among those that keep every limit the one
with the least of the objective is chosen; if none keeps them all, the one that breaks them by the
least share, and the decision says so. Equal ones: what is sooner, then steadier, then cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from handtorch.errors import BadInput
from handtorch.place.known import Known
from handtorch.place.situation import CLOUD, Candidate

Objective = Literal["latency", "energy"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "energy")


@dataclass(frozen=True)
class Target:
    """What is wanted least of, what must not be exceeded, and whether a picture may leave.

    >>> found = ht.place(350, server_ms=18.6, network="lte", target=ht.Target(private=True))
    >>> found.chosen.name
    'device'
    """

    objective: Objective = "latency"
    p50_s: float | None = None
    p90_s: float | None = None
    energy_j: float | None = None
    memory_bytes: float | None = None
    private: bool = False

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise BadInput(f"a target of {self.objective!r}", why=f"there is "
                           f"{' and '.join(OBJECTIVES)}")
        for name, limit in self.limits().items():
            if not 0 < limit < inf:
                raise BadInput(f"a limit of {limit} for {name}", why="a limit is above 0")

    def limits(self) -> dict[str, float]:
        """The limits that were set, by name.

        >>> ht.Target(p90_s=0.5).limits()
        {'p90_s': 0.5}
        """
        named = {name: getattr(self, name) for name in LIMITED}
        return {name: float(limit) for name, limit in named.items() if limit is not None}

    def wanted(self, candidate: Candidate) -> Known:
        """The figure of a candidate that this target wants least of.

        >>> target = ht.Target("latency")
        >>> target.wanted(ht.place(350).chosen).value > 0.35
        True
        """
        return candidate.p50_s if self.objective == "latency" else candidate.energy_j

    def other(self) -> Objective:
        """The objective that this target does not have.

        >>> ht.Target("latency").other()
        'energy'
        """
        return "energy" if self.objective == "latency" else "latency"


LIMITED = ("p50_s", "p90_s", "energy_j", "memory_bytes")


@dataclass(frozen=True)
class Judged:
    """A candidate under a target. `violation` is the worst share by which it exceeds a limit, 0 if
    it keeps all; `against` are sentences. A forbidden one is not ranked at all."""

    candidate: Candidate
    forbidden: bool
    violation: float
    against: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """`changes` are sentences on what would turn it; `qualified` is False where no candidate keeps
    all limits. `judged` has all candidates, the best first, forbidden ones last.

    >>> found = ht.place(350, server_ms=18.6, network="lte")
    >>> print(found.reasons[0])
    device takes 406 ms, 29% less than cloud, jpeg with 570 ms
    """

    target: Target
    chosen: Candidate
    runner_up: Candidate | None
    qualified: bool
    reasons: tuple[str, ...]
    judged: tuple[Judged, ...]
    changes: tuple[str, ...] = ()


def decide(candidates: Sequence[Candidate], target: Target) -> Decision:
    """The choice and its reasons; refused where nothing is allowed or nothing is known."""
    judged = [_judge(candidate, target) for candidate in candidates]
    ranked = _ranked(judged, target)
    best, runner_up = ranked[0], ranked[1] if len(ranked) > 1 else None
    everyone = (*ranked, *(j for j in judged if j.forbidden))
    return Decision(target, best.candidate, runner_up.candidate if runner_up else None,
                    best.violation == 0, tuple(_reasons(best, runner_up, everyone, target)),
                    everyone)


def winner(candidates: Sequence[Candidate], target: Target) -> Candidate:
    """What `decide` chooses, without a word on why."""
    return _ranked([_judge(candidate, target) for candidate in candidates], target)[0].candidate


def _ranked(judged: Sequence[Judged], target: Target) -> list[Judged]:
    """Those that are allowed, the best first."""
    ranked = sorted((j for j in judged if not j.forbidden), key=lambda j: _rank(j, target))
    if not ranked:
        raise BadInput("no place is left", why="the picture must not leave the device, and the "
                       "device cannot compute" if target.private else "there is no candidate",
                       fix="a model for the device")
    wanted = target.wanted(ranked[0].candidate)
    if wanted.value is None:
        raise BadInput(f"a target of {target.objective}",
                       why=f"it is known of no candidate: {wanted.how}",
                       fix="a power sheet and a network whose radio is known"
                       if target.objective == "energy" else "measure one of them")
    return ranked


def _judge(candidate: Candidate, target: Target) -> Judged:
    if target.private and candidate.place == CLOUD:
        return Judged(candidate, True, inf, ("the picture must not leave the device",))
    worst, against = 0.0, []
    for name, limit in target.limits().items():
        known: Known = getattr(candidate, name)
        if known.value is None:
            worst = inf
            against.append(f"its {_WORDS[name]} is not known: {known.how}")
        elif known.value > limit:
            worst = max(worst, known.value / limit - 1)
            against.append(f"its {_WORDS[name]} of {_shown(name, known.value)} is above the limit "
                           f"of {_shown(name, limit)}")
    return Judged(candidate, False, worst, tuple(against))


def _rank(judged: Judged, target: Target) -> tuple[float, ...]:
    one = judged.candidate
    return (judged.violation, *(inf if known.value is None else known.value for known in (
        target.wanted(one), one.p50_s, one.p90_s, one.energy_j, one.memory_bytes)))


_WORDS = {"p50_s": "median time", "p90_s": "90th percentile", "energy_j": "energy",
          "memory_bytes": "memory"}
_FIGURE = {"latency": "p50_s", "energy": "energy_j"}


def _shown(name: str, value: float) -> str:
    if name == "energy_j":
        return f"{value:.3g} J"
    if name == "memory_bytes":
        return f"{value / 1e6:.3g} MB"
    return shown_s(value)


def shown_s(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _reasons(best: Judged, runner_up: Judged | None, everyone: Sequence[Judged], target: Target
             ) -> list[str]:
    """Sentences with numbers, the most telling first."""
    name, one = _FIGURE[target.objective], best.candidate
    mine = target.wanted(one).value
    assert mine is not None
    said = []
    if best.violation:
        said.append(f"no candidate keeps every limit; {one.name} breaks them by least: "
                    f"{'; '.join(best.against)}")
    verb = "takes" if target.objective == "latency" else "costs"
    if runner_up is None:
        said.append(f"{one.name} {verb} {_shown(name, mine)}, and nothing else is left")
    elif (theirs := target.wanted(runner_up.candidate).value) is None:
        said.append(f"{one.name} {verb} {_shown(name, mine)}; of {runner_up.candidate.name} it is "
                    f"not known: {target.wanted(runner_up.candidate).how}")
    else:
        more = "against" if not theirs else (
            f"{mine / theirs - 1:.0%} more than" if mine > theirs else
            f"{1 - mine / theirs:.0%} less than")
        said.append(f"{one.name} {verb} {_shown(name, mine)}, {more} {runner_up.candidate.name} "
                    f"with {_shown(name, theirs)}")
    first_two = [one] if runner_up is None else [one, runner_up.candidate]
    said += [_mostly(each, name) for each in first_two]
    for judged in everyone:
        if judged.against and judged is not best:
            said.append(f"{judged.candidate.name}: {'; '.join(judged.against)}")
    said += _disagreement(one, everyone, target)
    if target.objective == "energy" or target.energy_j is not None:
        said += [doubt for each in first_two for doubt in each.doubts]
    return [sentence for sentence in dict.fromkeys(said) if sentence]


def _mostly(one: Candidate, name: str) -> str:
    """Which part most of it is."""
    parts = one.joules if name == "energy_j" else one.seconds
    whole = getattr(one, name).value
    if not parts or not whole:
        return ""
    part = max(parts, key=lambda key: parts[key])
    return (f"{one.name}: the largest part of its {_shown(name, whole)} is {part} with "
            f"{_shown(name, parts[part])}")


def _disagreement(one: Candidate, everyone: Sequence[Judged], target: Target) -> list[str]:
    """Latency and energy may want different places: said, for somebody may have asked for the
    wrong one."""
    other = Target(target.other())
    known = [(value, j.candidate) for j in everyone if not j.forbidden
             and (value := other.wanted(j.candidate).value) is not None]
    mine = other.wanted(one).value
    if not known or mine is None:
        return []
    least, best = min(known, key=lambda pair: pair[0])
    if best.name == one.name or least >= mine:
        return []
    name = _FIGURE[other.objective]
    return [f"for {other.objective} it would be {best.name}: {_shown(name, least)} against "
            f"{_shown(name, mine)}"]
