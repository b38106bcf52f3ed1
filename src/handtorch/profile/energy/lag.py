"""By how much readings are late: the shift at which operations explain them best.

Every shift has a likelihood; what follows from readings is the mean over all shifts, and how the
result differs between likely ones is part of its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.model import Floats

_USUAL = 0.5e-3                 # beyond what its time's error explains, a lag is rarely longer
_COARSE = 0.25e-3
_FINEST = 2e-6
SURE = 8.0                     # in log likelihood, before a clock is said to drift
Score = Callable[[float], float]


@dataclass(frozen=True)
class Shifts:
    """Likely lags in seconds, and how likely each is."""

    lag: Floats
    weight: Floats
    score: float                # of the likeliest

    @property
    def top(self) -> float:
        return float(self.lag[int(np.argmax(self.weight))])

    @property
    def mean(self) -> float:
        return float(self.weight @ self.lag)

    @property
    def error(self) -> float:
        """Standard deviation; the grid's own step is in it."""
        step = float(np.diff(self.lag).max()) if len(self.lag) > 1 else 0.0
        return float(np.sqrt(self.weight @ (self.lag - self.mean) ** 2 + step**2 / 12))

    def likely(self, points: int) -> Floats:
        """A grid over all that is likely, and a step beyond."""
        some = self.lag[self.weight > 1e-6 * self.weight.max()]
        step = float(np.diff(self.lag).max())
        return np.linspace(some[0] - step, some[-1] + step, points)


def prior(lag: float, half: float) -> float:
    """Log of how likely a lag is before any reading: alike within the clock's error."""
    return -float(np.log1p((max(abs(lag) - half, 0.0) / _USUAL) ** 2))


def weighed(lags: Floats, score: Score, half: float) -> Shifts:
    found = np.array([score(float(lag)) + prior(float(lag), half) for lag in lags])
    weight = np.exp(found - found.max())
    return Shifts(lags, weight / weight.sum(), float(found.max()))


def coarse(score: Score, half: float, period: float) -> Shifts:
    """Over one and a half periods: no converter that is worth reading is later than that."""
    lags = np.arange(-round((half + 1e-3) / _COARSE), round((half + 1.5 * period) / _COARSE) + 1)
    return weighed(np.asarray(lags * _COARSE, np.float64), score, half)


def drift(score: Score, seconds: float) -> float:
    """By how much the readings' clock runs fast, of which the score is given; 0 unless another is
    much likelier. Up to 50 ppm, or 4 ms from the first to the last reading."""
    most = min(50e-6 * seconds, 4e-3)
    if most < _COARSE:
        return 0.0
    best, top = 0.0, score(0.0) + SURE
    reach, step = most, _COARSE
    while step > _FINEST:
        for shift in best + np.arange(-round(reach / step), round(reach / step) + 1) * step:
            now = score(float(shift) / seconds)
            if now > top:
                best, top = float(shift), now
        reach, step = 1.5 * step, step / 4
    return best / seconds


def fine(first: Shifts, score: Score, half: float, points: int) -> Shifts:
    """Nearer and nearer until the grid is finer than the error, or than it matters."""
    now = first
    while True:
        step = float(np.diff(now.lag).max())
        # A shift between two of this grid may be better than both: half a step more on each side.
        reach = 3 * now.error + step / 2
        if now.error > 1.5 * step or step < _FINEST:
            return now
        middle = now.mean if abs(now.mean - now.top) < step else now.top
        now = weighed(middle + np.linspace(-reach, reach, points), score, half)
