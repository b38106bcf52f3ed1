"""Values that are renewed more rarely than they are read: one reading for each renewal.

A value that is read again says nothing new, and the first reading of it is late by up to one
period of the reader. Renewals that come at equal times are known far better than that: from all
of them together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from handtorch.profile.energy.model import Floats
from handtorch.profile.energy.sense import Rows

_OFTEN = 2.5                    # readings of a value, in the median, before it counts as held
_ALIKE, _MOST = 1.5, 0.75       # so many runs are of the same length, to so many readings
_LEAST_RUNS = 8
_CLOCK = 0.1e-3                 # seconds by which clocks may differ between two readings


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


def on_grid(rows: Rows, period: float, phase: float) -> Rows:
    """As if each value had been made at the last multiple of `period` after `phase`."""
    made = phase + np.floor((rows.at - phase) / period) * period
    return replace(rows, before=made, at=made)


def once(rows: Rows) -> Rows:
    """Of the rows of one time the first."""
    at, kept = np.unique(rows.at, return_index=True)
    return replace(rows, before=at, at=at, half=rows.half[kept], value=rows.value[kept])


def _made(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """When each value was made, with half the width of what is possible: between two readings, or
    on the regular grid that fits between all of them, if there is one."""
    middle, half = (low + high) / 2, (high - low) / 2
    count = np.concatenate([[0], np.cumsum(np.rint(np.diff(middle) / _period(middle)))])
    # Readings follow the same clock as renewals: where between two readings these are is the same
    # for long, so the middles are off together. Only the bounds are right.
    period = float(np.polyfit(count, middle, 1)[0])
    reach = 2 * float(half.max()) / max(count[-1], 1)
    room = (0.0, 0.0, 0.0)
    for _ in range(5):
        room = max(_room(low, high, count, period + step * reach)
                   for step in np.linspace(-1, 1, 41))
        period, reach = room[1], reach / 10
    wide, period, first = room
    if wide < -_CLOCK:
        return middle, half
    return first + period * count, np.full(len(count), max(wide, 0.0) + _CLOCK)


def _room(low: Floats, high: Floats, count: Floats, period: float) -> tuple[float, float, float]:
    """(what the first renewal's time may differ, the period, the middle of these times)."""
    least, most = float((low - period * count).max()), float((high - period * count).min())
    return most - least, period, (least + most) / 2


def _period(middle: Floats) -> float:
    """Between two renewals: the mean of all that are about one apart."""
    apart = np.diff(middle)
    usual = float(np.median(apart))
    return float(apart[apart < 1.5 * usual].mean())
