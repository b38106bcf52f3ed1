"""Joules for operations, from the readings of one signal: the whole way.

    spans, series -> pieces and rows (join, sense, counters) -> powers, lag, noise (estimate)
                  -> energies with intervals -> what is known, idle, and left over

Nothing is invented: an operation whose interval is wider than half of it has no total, only the
interval; and what the rail took is always the sum of what was handed out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from handtorch.profile.energy.counters import deltas, said
from handtorch.profile.energy.estimate import Estimate, estimate
from handtorch.profile.energy.held import renewals
from handtorch.profile.energy.join import NS, Pieces, pieces_of, seconds, touching
from handtorch.profile.energy.model import Attribution, Bools, Ints, OpEnergy, Series, Spans
from handtorch.profile.energy.sense import FADED, Rows
from handtorch.profile.energy.steps import step_energies
from handtorch.profile.energy.student import t975

WIDEST = 0.5                        # half the interval by the estimate; wider is no knowledge
_HOLE = 10                          # readings missing in a row: the steps there are not measured
_LEAST_ROWS = 8
HOW = {
    "instant": "mean of readings while it ran, over all steps",
    "window": "least squares on overlap with each reading's window",
    "lowpass": "least squares on overlap, filtered as the sensor does",
    "counter": "least squares on seconds between two readings",
}
ONE_LANE = "one lane: operations never ran at once"
LANES = "least squares tells lanes apart; idle beneath them in equal shares per active lane"


def attribute(spans: Spans, series: Series) -> Attribution:
    """Share out the energy that the signal shows over the steps."""
    signal = series.signal
    unit = signal.quantity.rsplit("_", 1)[-1]
    if signal.kind == "gauge" or unit != ("j" if signal.kind == "counter" else "w"):
        return _nothing(spans, series, f"{signal.quantity} is a {signal.kind} in {unit}, "
                                       "not power in w or a counter in j")
    if not len(spans.step_start_ns):
        return _nothing(spans, series, "not enough data: no steps")
    good = np.isfinite(series.value)
    missing = int((~good).sum())
    notes = [f"{missing} readings are missing"] if missing else []
    series = replace(series, time_ns=series.time_ns[good], half_ns=series.half_ns[good],
                     value=series.value[good])
    zero = int(spans.step_start_ns.min())
    rows, said_too = _rows(series, zero)
    notes += said_too
    if len(rows) < _LEAST_ROWS:
        return _nothing(spans, series, f"not enough data: {len(rows)} readings", tuple(notes))
    measured = _measured(spans, rows, zero)
    if not measured.any():
        return _nothing(spans, series, "not enough data: no readings during the steps",
                        tuple(notes))
    if not measured.all():
        notes.append(f"{int((~measured).sum())} of {len(measured)} steps have no readings: "
                     "left out")
    reach = int((FADED * rows.span + float(rows.at[-1] - rows.before[0]) + 1) / NS)
    pieces = pieces_of(spans, measured, zero + int(rows.before[0] / NS) - reach,
                       zero + int(rows.at[-1] / NS) + reach)
    found = estimate(pieces, rows)
    if found.drift:
        notes.append(f"the readings' clock runs {found.drift * 1e6:+.1f} ppm fast: taken out")
    return _shared_out(spans, series, pieces, found.rows, measured, found, notes)


def _nothing(spans: Spans, series: Series, why: str, notes: tuple[str, ...] = ()) -> Attribution:
    ran = np.bincount(spans.op, (spans.end_ns - spans.start_ns) * NS, len(spans.names))
    count = np.bincount(spans.op, minlength=len(spans.names))
    ops = tuple(OpEnergy(name, int(n), float(s), 0, None, None, None, None, why)
                for name, n, s in zip(spans.names, count, ran, strict=True))
    return Attribution(series.signal, "none", "none", None, None, None, None, 0, 0,
                       (None,) * len(spans.step_start_ns), ops, why, notes)


def _rows(series: Series, zero: int) -> tuple[Rows, list[str]]:
    """What is to be explained, and what was dropped."""
    signal = series.signal
    at, half = seconds(series.time_ns, zero), seconds(series.half_ns, 0)
    if signal.kind != "counter":
        # An instant that takes a while is the mean over a short window.
        kind = "window" if signal.kind == "instant" and signal.span_ns else signal.kind
        rows = Rows(kind, signal.span_ns * NS, at, at, half, series.value, signal.step)
        new = renewals(rows)
        return (rows, []) if new is None else (
            new, [f"{len(at) - len(new)} of {len(at)} readings show the value before again"])
    found = deltas(series, at)
    good = np.isfinite(found.value) & (np.diff(at) > 0)
    return Rows("counter", signal.span_ns * NS, at[:-1][good], at[1:][good], half[1:][good],
                found.value[good]), list(said(found))


def _measured(spans: Spans, rows: Rows, zero: int) -> Bools:
    """Which steps lie between readings that are not too far apart."""
    start, end = seconds(spans.step_start_ns, zero), seconds(spans.step_end_ns, zero)
    apart = np.diff(rows.at)
    usual = float(np.median(apart)) if len(apart) else 0.0
    slack = max(_HOLE * usual, 2 * rows.span)
    good = (start >= rows.before[0] - slack) & (end <= rows.at[-1] + slack)
    holes = np.flatnonzero(rows.at[1:] - rows.at[:-1] > slack)
    # A hole reaches from the reading before it to the one behind it.
    low, high = rows.at[:-1][holes], rows.at[1:][holes]
    if len(holes):
        met = np.searchsorted(high, start, side="right") < np.searchsorted(low, end, side="left")
        good &= ~met
    return np.asarray(good)


def _counts(pieces: Pieces, rows: Rows, lag: float) -> Ints:
    """Readings taken while each operation ran, in the steps that count."""
    at = rows.at - lag
    _, piece = touching(pieces, at, at)
    return np.bincount(pieces.op[piece[pieces.counts[piece]]], minlength=pieces.ops + 2)


def _shared_out(spans: Spans, series: Series, pieces: Pieces, rows: Rows, measured: Bools,
                found: Estimate, notes: list[str]) -> Attribution:
    lag = found.shifts.mean
    steps = step_energies(spans, pieces, rows, measured, found.power, found.columns, found.rest,
                          lag)
    idle_w = _idle_w(pieces, found)
    idle_j = _idle_j(pieces, found)
    ops = _ops(spans, pieces, rows, measured, found, idle_w)
    known = [op.total_j for op in ops if op.total_j is not None]
    rail, rest = conserved(math.fsum(s for s in steps if s is not None), [*known, idle_j])
    lag_ns, error_ns = round(lag / NS), math.ceil(t975(1e9) * found.shifts.error / NS)
    period = float(np.median(np.diff(rows.at)))
    if abs(lag) > period:
        notes.append(f"readings are {lag * 1e3:.1f} ms late, more than one period")
    return Attribution(
        series.signal, HOW[rows.kind], LANES if pieces.layered else ONE_LANE, rail, idle_j, rest,
        idle_w, lag_ns, error_ns, tuple(steps), ops, "", tuple(notes), found.joules.mean,
        found.joules.covariance, found.freedom)


def conserved(rail: float, shares: list[float]) -> tuple[float, float]:
    """(rail, what is left of it): the shares and the rest add up to the rail, to the last bit."""
    rest = math.fsum([rail, *(-share for share in shares)])
    return math.fsum([*shares, rest]), rest


def _idle_w(pieces: Pieces, found: Estimate) -> float | None:
    """The power while nothing ran: in steps or outside, whichever is known better."""
    best: tuple[float, float] | None = None
    for which in (pieces.idle, pieces.outside):
        at = found.columns[which]
        if at >= 0:
            error = math.sqrt(max(found.covariance[at, at], 0.0))
            if best is None or error < best[0]:
                best = (error, float(found.power[at]))
    if best is None or best[0] * t975(found.freedom) > WIDEST * abs(best[1]):
        return None
    return best[1]


def _idle_j(pieces: Pieces, found: Estimate) -> float:
    at = found.columns[pieces.idle]
    return float(found.power[at]) * pieces.gap if at >= 0 and pieces.gap else 0.0


def _ops(spans: Spans, pieces: Pieces, rows: Rows, measured: Bools, found: Estimate,
         idle_w: float | None) -> tuple[OpEnergy, ...]:
    counted = measured[spans.step]
    ran = np.bincount(spans.op, (spans.end_ns - spans.start_ns) * NS * counted, pieces.ops)
    count = np.bincount(spans.op, counted, pieces.ops)
    readings = _counts(pieces, rows, found.shifts.mean)
    mean = found.joules.mean
    wide = t975(found.freedom) * np.sqrt(np.maximum(np.diag(found.joules.covariance), 0.0))
    return tuple(_op(spans.names[i], int(count[i]), float(ran[i]), int(readings[i]),
                     float(mean[i]), float(wide[i]), float(pieces.share[i]), idle_w)
                 for i in range(pieces.ops))


def _op(name: str, count: int, seconds: float, readings: int, mean: float, wide: float,
        share: float, idle_w: float | None) -> OpEnergy:
    if seconds == 0:
        why = "it never ran in a measured step" if count == 0 else "its spans have no length"
        return OpEnergy(name, count, seconds, readings, None, None, None, None,
                        f"not enough data: {why}")
    low, high = mean - wide, mean + wide
    if not wide <= WIDEST * abs(mean) or mean <= 0:
        return OpEnergy(name, count, seconds, readings, None, low, high, None,
                        f"not enough data: +-{_percent(wide, mean)} with {readings} readings in "
                        f"{seconds:.3g} s")
    if idle_w is None:
        return OpEnergy(name, count, seconds, readings, mean, low, high, None,
                        "no dynamic energy: idle power was not seen")
    return OpEnergy(name, count, seconds, readings, mean, low, high, mean - idle_w * share)


def _percent(wide: float, mean: float) -> str:
    return f"{100 * wide / abs(mean):.0f} %" if mean and math.isfinite(wide) else "any"

