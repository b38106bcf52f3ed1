"""Values that are renewed more rarely than they are read: one reading for each renewal.

A value that is read again says nothing new, and the first reading of it is late by up to one
period of the reader. Renewals that come at equal times are known far better than that: from all
of them together."""

from __future__ import annotations

import numpy as np

from handtorch.profile.energy.model import Bools, Floats
from handtorch.profile.energy.sense import Rows

_OFTEN = 2.5                    # readings of a value, in the median, before it counts as held
_ALIKE, _MOST = 1.5, 0.75       # so many runs are of the same length, to so many readings
_LEAST_RUNS = 8
_FITS = 0.95                    # of the renewals lie where a regular one would have been seen


def renewals(rows: Rows) -> Rows | None:
    """The rows at which a new value was seen, at the time of its making; None if each is new.

    Equal neighbours by chance, or because one operation ran on, come in runs of all lengths; those
    of a held value are all of one length, or of a multiple where a new value is like the old."""
    if rows.kind == "counter" or len(rows) < 2:
        return None
    new = np.concatenate([[False], np.diff(rows.value) != 0])
    at = np.flatnonzero(new)
    if len(at) < _LEAST_RUNS:
        return None
    runs = np.diff(at)
    usual = float(np.median(runs))
    over = np.abs(runs - usual * np.maximum(np.rint(runs / usual), 1))
    if usual < _OFTEN or (over <= _ALIKE).mean() < _MOST:
        return None
    low, high = rows.at[at - 1], rows.at[at]
    made, half = _made(low, high)
    return Rows(rows.kind, rows.span, made, made, half + rows.half[at], rows.value[at], rows.least)


def _made(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """When each value was made, with half the width of what is possible: between two readings, or
    on a regular grid if nearly all lie on it."""
    middle, half = (low + high) / 2, (high - low) / 2
    count = np.concatenate([[0], np.cumsum(np.rint(np.diff(middle) / _period(middle)))])
    regular: Bools = np.ones(len(middle), bool)
    for _ in range(3):
        slope, first = np.polyfit(count[regular], middle[regular], 1)
        grid = first + slope * count
        regular = np.abs(grid - middle) <= half + 1e-4
        if regular.mean() < _FITS:
            return middle, half
    error = float(np.std((grid - middle)[regular])) * 2 / np.sqrt(regular.sum())
    return np.where(regular, grid, middle), np.where(regular, np.minimum(error, half), half)


def _period(middle: Floats) -> float:
    """Between two renewals: the median would be that of the reader's grid, so the mean of all that
    are about one apart."""
    apart = np.diff(middle)
    usual = float(np.median(apart))
    return float(apart[apart < 1.5 * usual].mean())
