"""Who wins where, and what a policy takes more than the best: cells of costs, and their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from handtorch.baseline.fair import middle_half
from handtorch.place.situation import CLOUD, DEVICE

MOST_REGRET = 0.05
LEAST_SHARE = 0.20


@dataclass(frozen=True)
class Cell:
    """One network, one picture, one target: costs of every way (seconds or joules), and of `auto`,
    with the way it used each time. What was tried for the first time is apart: it is the price of
    knowing nothing."""

    network: str
    picture: str
    kind: str
    unit: str
    ways: Mapping[str, Sequence[float]]
    auto: Sequence[float]
    used: Sequence[str]
    first: Sequence[float] = ()

    @property
    def costs(self) -> dict[str, float]:
        return {way: median(values) for way, values in self.ways.items()}

    @property
    def best(self) -> str:
        costs = self.costs
        return min(costs, key=costs.__getitem__)

    @property
    def place(self) -> str:
        return CLOUD if self.best.startswith(CLOUD) else DEVICE

    def best_of(self, place: str) -> float:
        return min(cost for way, cost in self.costs.items() if way.startswith(place))

    @property
    def within_spread(self) -> bool:
        """The best and the next are closer than either's own values are to each other."""
        return self._close(sorted(self.costs, key=self.costs.__getitem__)[:2])

    @property
    def undecided(self) -> bool:
        """The same of the best way of each place: nobody knows which place wins."""
        return self._close([min((way for way in self.ways if way.startswith(place)),
                                key=self.costs.__getitem__) for place in (DEVICE, CLOUD)])

    def _close(self, two: Sequence[str]) -> bool:
        gap = abs(self.costs[two[0]] - self.costs[two[1]])
        return gap < max(middle_half(tuple(self.ways[way])) for way in two)

    @property
    def regret(self) -> float:
        return median(self.auto) / self.costs[self.best] - 1


@dataclass(frozen=True)
class Regret:
    """Of all cells of one unit: seconds are not added to joules."""

    unit: str
    auto: float
    oracle: float

    @property
    def share(self) -> float:
        return self.auto / self.oracle - 1


def judged(cells: Sequence[Cell]) -> list[Cell]:
    """Those that count: `auto` chose in them, and the best is more than noise ahead."""
    return [cell for cell in cells if cell.auto and not cell.within_spread]


def regrets(cells: Sequence[Cell]) -> list[Regret]:
    """A total for each unit there is."""
    by_unit = {unit: [cell for cell in cells if cell.unit == unit]
               for unit in dict.fromkeys(cell.unit for cell in cells)}
    return [Regret(unit, sum(median(cell.auto) for cell in some),
                   sum(cell.costs[cell.best] for cell in some))
            for unit, some in by_unit.items()]


def looks(cells: Sequence[Cell]) -> dict[str, float]:
    """By unit: what it cost more to try all places for the first time, the mean of all times."""
    found: dict[str, list[float]] = {}
    for cell in cells:
        if cell.first:
            more = sum(cell.first) - len(cell.first) * cell.costs[cell.best]
            found.setdefault(cell.unit, []).append(more)
    return {unit: fmean(more) for unit, more in found.items()}


def shares(cells: Sequence[Cell]) -> dict[str, float]:
    """Of the cells that have a winner, those that each place wins."""
    decided = [cell for cell in cells if not cell.undecided]
    return {place: sum(cell.place == place for cell in decided) / max(1, len(decided))
            for place in (DEVICE, CLOUD)}


def holds(cells: Sequence[Cell]) -> bool:
    counted = judged(cells)
    return bool(counted) and all(r.share <= MOST_REGRET for r in regrets(counted)) and all(
        share >= LEAST_SHARE for share in shares(cells).values())
