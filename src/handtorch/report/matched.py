"""The same figure in several runs: which results belong together, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.record import Result, Run

Key = tuple[str, str, str, str, float | None, str]


@dataclass(frozen=True)
class Matched:
    """One figure: in each run its result, or None where the run has not got it."""

    study: str
    name: str
    subject: str
    x_name: str
    x_value: float | None
    unit: str
    results: tuple[Result | None, ...]

    def ratio(self, at: int) -> float | None:
        """The value in run number `at` by that in the first; None where one is not known."""
        first, other = self.results[0], self.results[at]
        if first is None or other is None or not first.value or other.value is None:
            return None
        return other.value / first.value

    def within_spread(self, at: int) -> bool | None:
        """Whether both differ by no more than their spreads say; None where there is no spread."""
        first, other = self.results[0], self.results[at]
        if first is None or other is None or first.value is None or other.value is None \
                or first.spread is None or other.spread is None:
            return None
        return abs(first.value - other.value) <= (first.spread + other.spread) / 2


def letter(at: int) -> str:
    """How a run is called beside others: A, B, ..."""
    return chr(ord("A") + at) if at < 26 else f"run {at + 1}"


def key_of(r: Result) -> Key:
    """What a figure is called in every run; the place is not part of it: that is what differs."""
    return r.study, r.name, r.subject, r.x_name, r.x_value, r.unit


def matched(runs: Sequence[Run]) -> list[Matched]:
    """Figures that at least two runs have, in the order of the first of them. Of several results
    under the same name at different places the first counts."""
    found: dict[Key, list[Result | None]] = {}
    for at, run in enumerate(runs):
        for r in run.results:
            row = found.setdefault(key_of(r), [None] * len(runs))
            row[at] = row[at] or r
    return [Matched(*key, tuple(row)) for key, row in found.items()
            if sum(r is not None for r in row) > 1]
