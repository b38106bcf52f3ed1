"""Differences of a counter, where they can be believed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.model import Bools, Floats, Series

_FASTER = 20.0                  # a difference this many times the usual rate is no real one


@dataclass(frozen=True)
class Deltas:
    """Between one reading of a counter and the next: what it rose by; NaN where unknown."""

    value: Floats
    wraps: int
    falls: int                  # it fell and this was no wrap: a reset or a suspend
    leaps: int                  # it rose more than can be


def deltas(series: Series, time_s: Floats) -> Deltas:
    """`series` without missing values. A fall is a wrap only if the rise that it would mean is one
    that was seen elsewhere in these readings, or nearly."""
    rise = np.diff(series.value)
    elapsed = np.diff(time_s)
    fell = rise < 0
    wrapped: Bools = np.zeros(len(rise), bool)
    value = rise.copy()
    usual = _usual(rise[~fell], elapsed[~fell])
    limit = _FASTER * usual * np.maximum(elapsed, np.median(elapsed) if len(elapsed) else 0)
    limit += 2 * series.signal.step
    if series.signal.wraps_at is not None:
        over = rise + series.signal.wraps_at
        # With nothing to compare with, at most an eighth of the range is believed.
        most = limit if usual > 0 else np.full(len(rise), series.signal.wraps_at / 8)
        wrapped = fell & (over >= 0) & (over <= most)
        value[wrapped] = over[wrapped]
    leapt = ~fell & (rise > limit) if usual > 0 else np.zeros(len(rise), bool)
    value[(fell & ~wrapped) | leapt] = np.nan
    return Deltas(value, int(wrapped.sum()), int((fell & ~wrapped).sum()), int(leapt.sum()))


def _usual(rise: Floats, elapsed: Floats) -> float:
    """The median rate, of windows long enough to have one; 0 where nothing rose."""
    some = (rise > 0) & (elapsed > 0)
    return float(np.median(rise[some] / elapsed[some])) if some.any() else 0.0


def said(found: Deltas) -> tuple[str, ...]:
    """In words, what was not as usual."""
    words = []
    if found.wraps:
        words.append(f"the counter wrapped {found.wraps} x: its range was added")
    if found.falls:
        words.append(f"the counter fell {found.falls} x without a wrap: dropped")
    if found.leaps:
        words.append(f"the counter leapt {found.leaps} x by more than can be: dropped")
    return tuple(words)
