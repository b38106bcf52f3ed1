"""What each step took: the powers found, and what they leave unexplained, integrated."""

from __future__ import annotations

import numpy as np

from handtorch.profile.energy.join import Pieces, seconds
from handtorch.profile.energy.model import Bools, Floats, Ints, Spans
from handtorch.profile.energy.sense import Rows


def step_energies(spans: Spans, pieces: Pieces, rows: Rows, measured: Bools, power: Floats,
                  columns: Ints, rest: Floats, lag: float) -> list[float | None]:
    """Of each measured step the integral of the power in J; None for the others.

    What runs between two readings is known from `power`; `rest` puts each reading right, so the
    sum is the readings' own."""
    watts = np.where(columns[pieces.op] >= 0, power[columns[pieces.op]], 0.0)
    inside = pieces.step >= 0
    known = np.bincount(pieces.step[inside], (watts * pieces.seconds)[inside],
                        len(spans.step_start_ns))
    start = seconds(spans.step_start_ns, pieces.zero_ns)
    end = seconds(spans.step_end_ns, pieces.zero_ns)
    joules = known + _integral(rows, rest, lag, start, end)
    return [float(j) if good else None for j, good in zip(joules, measured, strict=True)]


def _integral(rows: Rows, rest: Floats, lag: float, start: Floats, end: Floats) -> Floats:
    """Of what is left in each row: joules of a counter between its readings, watts of the others
    as a line from the middle of what one reading speaks of to that of the next."""
    if rows.kind == "counter":
        late = lag + rows.span / 2
        at = np.column_stack([rows.before, rows.at]).ravel() - late
        sum_ = np.column_stack([np.zeros(len(rest)), rest]).ravel().cumsum()
        return np.asarray(np.interp(end, at, sum_) - np.interp(start, at, sum_))
    late = lag + {"window": rows.span / 2, "lowpass": rows.span}.get(rows.kind, 0.0)
    at = rows.at - late
    upto = np.concatenate([[0.0], np.cumsum(np.diff(at) * (rest[1:] + rest[:-1]) / 2)])

    def until(t: Floats) -> Floats:
        i = np.clip(np.searchsorted(at, t, side="right") - 1, 0, max(len(at) - 2, 0))
        j = np.minimum(i + 1, len(at) - 1)
        part = np.clip(t - at[i], 0.0, at[j] - at[i])
        slope = (rest[j] - rest[i]) / np.maximum(at[j] - at[i], 1e-300)
        return np.asarray(upto[i] + part * (rest[i] + slope * part / 2))

    return np.asarray(until(end) - until(start))
