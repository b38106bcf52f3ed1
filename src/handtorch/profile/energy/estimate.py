"""Rows and pieces to joules: the lag, the noise, the powers, and the energies with their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from handtorch.profile.energy import lag as lags
from handtorch.profile.energy.fit import Fit, Sums, best, fit, shares_of, sums, whitener
from handtorch.profile.energy.goal import Energies, energies
from handtorch.profile.energy.held import on_grid, once
from handtorch.profile.energy.join import Pieces
from handtorch.profile.energy.model import Floats, Ints
from handtorch.profile.energy.noise import Noise, blocks_of, column, faded, noise_of
from handtorch.profile.energy.sense import Rows, touch
from handtorch.profile.energy.sober import rounding, sobered, without_far

_TRIAL_ROWS = 2560              # that are enough to find the lag roughly, and the noise
_LOOSE = 3.0                    # idle is not like an operation: it is held less
_EDGE = 0.2e-3                  # seconds around a counter's reading of which power is taken
_FREE = 0.3
_BETWEEN = 30e-6                # seconds by which clocks differ between two comparisons of them
_MODEL = 2e-4                   # no better than that is power the same all through an instance
_SLIGHT = 0.1e-3                # seconds over the whole run: too little to tell from a lag
_START = np.array([1.0, 0.1, 0.1, 0.01])


@dataclass(frozen=True)
class Estimate:
    """Columns are the operations, then `idle` and `outside` where they were seen at all."""

    power: Floats
    covariance: Floats
    joules: Energies
    shifts: lags.Shifts
    rest: Floats                # of each row, what no power explains
    freedom: float
    columns: Ints
    rows: Rows                  # with the drift of their clock taken out
    drift: float = 0.0


@dataclass(frozen=True)
class _Case:
    """All that stays while lags and noises are tried."""

    pieces: Pieces
    columns: Ints
    count: int
    loose: Floats
    blur: float

    def x(self, rows: Rows, lag: float) -> Floats:
        if rows.kind == "lowpass":
            return faded(self.pieces, rows, np.full(len(rows), lag), self.columns, self.count)
        found = touch(self.pieces, rows, np.full(len(rows), lag), self.blur)
        return column(self.pieces, found, len(rows), self.columns, self.count)

    def noise(self, rows: Rows, lag: float, power: Floats, brief: bool = False) -> Noise:
        found = touch(self.pieces, rows, np.full(len(rows), lag), self.blur)
        least = 0.05 * float(np.abs(power).mean())
        power = np.maximum(power, least)
        return noise_of(self.pieces, rows, found, power, self._edge(rows, lag, power),
                        self.columns, brief)

    def _edge(self, rows: Rows, lag: float, power: Floats) -> Floats:
        """[row, 2]: the power where each row of a counter begins and ends."""
        if rows.kind != "counter":
            return np.zeros((0, 2))
        wide = max(rows.span, _EDGE)
        ends = np.concatenate([rows.before, rows.at])
        points = Rows("window", wide, ends, ends, ends, ends)
        found = touch(self.pieces, points, np.full(len(ends), lag - (wide - rows.span) / 2), 1.0)
        x = column(self.pieces, found, len(ends), self.columns, self.count)
        return np.asarray((x @ power).reshape(2, -1).T)


def columns_of(pieces: Pieces, rows: Rows) -> Ints:
    """The column of each operation, of idle and of outside; -1 for what there is none of.

    Idle beneath operations is told from them in the gaps; without gaps, by what is outside."""
    seconds = np.bincount(pieces.op, pieces.seconds, pieces.ops + 2)
    near = rows.at[-1] - rows.before[0] if rows.kind == "counter" else rows.at[-1] - rows.at[0]
    has_out = seconds[pieces.outside] > 0.002 * near
    has_gap = pieces.gap > 0.002 * near
    columns = np.arange(pieces.ops + 2)
    if pieces.layered and not has_gap:
        columns[pieces.outside] = pieces.idle
        if not has_out:
            columns[pieces.idle:] = -1
    elif pieces.gap == 0 and not pieces.layered:
        columns[pieces.idle], columns[pieces.outside] = -1, pieces.idle
    if columns[pieces.outside] >= 0 and seconds[pieces.outside] == 0:
        columns[pieces.outside] = -1
    return columns


def _trial(rows: Rows) -> Rows:
    """Whole blocks from all over the run."""
    size = blocks_of(rows).size
    count = len(rows) // size
    wanted = _TRIAL_ROWS // size
    if count <= wanted:
        return rows
    kept = np.concatenate([np.arange(size) + size * int(b)
                           for b in np.linspace(0, count - 1, wanted)])
    return Rows(rows.kind, rows.span, rows.before[kept], rows.at[kept], rows.half[kept],
                rows.value[kept], rows.least)


def estimate(pieces: Pieces, rows: Rows) -> Estimate:
    """The energies of all operations in steps that count."""
    columns = columns_of(pieces, rows)
    count = int(columns.max()) + 1
    loose = np.where(np.arange(count) < pieces.ops, 1.0, _LOOSE)
    half = float(np.median(rows.half))
    period = float(np.median(np.diff(rows.at))) if len(rows) > 1 else 0.0

    rows = _on_grid(_Case(pieces, columns, count, loose, 0.0), rows, half, period)
    drift = _drift(_Case(pieces, columns, count, loose, 0.0), rows, half, period)
    rows = rows.stretched(drift) if drift else rows
    trial = _trial(rows)

    def tried(blur: float, jitter: float) -> _Tried:
        case = _Case(pieces, columns, count, loose, blur)
        some = replace(trial, half=trial.half + jitter)
        shifts = lags.coarse(lambda lag: _plain(case, some, lag)[0], half, period)
        power = fit(_plain(case, some, shifts.top)[1], loose).power
        shares = _START
        for _ in range(2):
            noise = case.noise(some, shifts.top, power, brief=True)
            shares = shares_of(noise, case.x(some, shifts.top), some.value, loose, shares)
            shifts, fits = _late(case, some, noise, shares, shifts, half)
            power = fits[shifts.top].power
        return _Tried(case, shifts, power, shares, jitter)

    # Is a reading's time uncertain for each alone, or the same for all (and so a lag)?
    blurs = {"instant": ((0.0, 0.0), (1.0, 0.0), (1.0, _BETWEEN)),
             "counter": ((0.0, 0.0), (1.0, 0.0))}.get(rows.kind, ((0.0, 0.0),))
    best = max((tried(*blur) for blur in blurs), key=lambda one: one.shifts.score)
    rows = replace(rows, half=rows.half + best.jitter)
    return replace(_whole(best, rows, half), drift=drift)


@dataclass(frozen=True)
class _Tried:
    case: _Case
    shifts: lags.Shifts
    power: Floats
    shares: Floats
    jitter: float


def _on_grid(case: _Case, rows: Rows, half: float, period: float) -> Rows:
    """Windows that are read about as rarely as they are long may be made one after the other, and
    not when they are read: the rows at these times, if that explains them much better."""
    if rows.kind != "window" or period < rows.span / 2:
        return rows
    some = _trial(rows)
    alone = lags.coarse(lambda lag: _plain(case, some, lag)[0], half, period).score
    phases = np.arange(0.0, rows.span, max(rows.span / 100, 1e-3))
    scores = [_plain(case, on_grid(some, rows.span, phase), 0.0)[0] for phase in phases]
    if max(scores) < alone + lags.SURE:
        return rows
    return once(on_grid(rows, rows.span, float(phases[int(np.argmax(scores))])))


def _drift(case: _Case, rows: Rows, half: float, period: float) -> float:
    """By how much the readings' clock is fast: 0 unless no lag alone explains them as well."""
    def best(some: Rows) -> lags.Shifts:
        def score(lag: float) -> float:
            return _plain(case, some, lag)[0]
        points = 41 if rows.kind == "instant" else 13
        first = lags.coarse(score, half, period)
        return lags.fine(lags.weighed(first.likely(points), score, half), score, half, points)

    alone = best(_trial(rows))
    drift = lags.drift(lambda fast: _plain(case, _trial(rows.stretched(fast)), alone.top)[0],
                       float(rows.at[-1] - rows.at[0]))
    if abs(drift) * (rows.at[-1] - rows.at[0]) < _SLIGHT:
        return 0.0
    if best(_trial(rows.stretched(drift))).score > alone.score + lags.SURE:
        return drift
    return 0.0


def _late(case: _Case, rows: Rows, noise: Noise, shares: Floats, first: lags.Shifts, half: float
          ) -> tuple[lags.Shifts, dict[float, Fit]]:
    """The likely lags with this noise, and what each of them gives."""
    # Instances of this noise are those of one lag: rows may not depend on one another so much that
    # another lag becomes impossible.
    free = shares.copy()
    free[0] = max(free[0], _FREE * shares.max())
    white, log_det = whitener(noise, free)
    kept: dict[float, Fit] = {}

    def score(late: float) -> float:
        if late not in kept:
            kept[late] = fit(sums(white, log_det, noise, case.x(rows, late), rows.value),
                             case.loose)
        return kept[late].score

    points = 41 if rows.kind == "instant" else 13
    return lags.fine(lags.weighed(first.likely(points), score, half), score, half, points), kept


def _plain(case: _Case, rows: Rows, lag: float) -> tuple[float, Sums]:
    """(score, sums) as if rows erred alone and alike."""
    x = case.x(rows, lag)
    given = Sums(x.T @ x, x.T @ rows.value, float(rows.value @ rows.value), len(rows), 0.0)
    return best(given, case.loose)[0], given


def _whole(tried: _Tried, rows: Rows, half: float) -> Estimate:
    """The same with all rows, and over all likely lags."""
    case, shares, power = tried.case, tried.shares, tried.power
    shifts, kept = _late(case, rows, case.noise(rows, tried.shifts.top, power), shares,
                         tried.shifts, half)
    noise = case.noise(rows, shifts.mean, power)
    white, log_det = whitener(noise, shares)
    x = case.x(rows, shifts.mean)
    found = fit(sums(white, log_det, noise, x, rows.value), case.loose)
    noise, far = without_far(noise, shares, rows.value - x @ found.power, found.unit)
    if far:
        white, log_det = whitener(noise, shares)
        found = fit(sums(white, log_det, noise, x, rows.value), case.loose)
    found = sobered(found, white, rows)
    goal = _goal(case)
    joules = energies(noise, shares, white, x, rows.value, found, goal)
    powers = np.array([kept[float(lag)].power for lag in shifts.lag])
    apart = (powers - shifts.weight @ powers) * np.sqrt(shifts.weight)[:, None]
    spread = apart.T @ apart + np.diag(_rounding(rows, noise, shares, found))
    model = np.diag((_MODEL * joules.mean) ** 2)
    return Estimate(found.power, found.covariance + spread,
                    Energies(joules.mean, joules.covariance + goal @ spread @ goal.T + model),
                    shifts, rows.value - x @ found.power, found.freedom, case.columns, rows)


def _rounding(rows: Rows, noise: Noise, shares: Floats, found: Fit) -> Floats:
    """Variance of each column by the sensor's steps; what is a mean of much is never one value."""
    if rows.kind != "instant":
        return np.zeros(len(found.power))
    reads = found.unit * float(shares[0] / max(noise.size[0], 1e-300))
    varies = found.unit * float(shares[2] / noise.size[2]) if noise.size[2] > 0 else 0.0
    return rounding(rows.least, reads, found.power, varies)


def _goal(case: _Case) -> Floats:
    """[operation, column]: seconds of its power, and of the idle beneath it that is its share."""
    pieces = case.pieces
    goal = np.zeros((pieces.ops, case.count))
    mine = pieces.counts & (pieces.op < pieces.ops)
    seconds = np.bincount(pieces.op[mine], pieces.seconds[mine], pieces.ops)
    np.fill_diagonal(goal, seconds)
    if pieces.layered and case.columns[pieces.idle] >= 0:
        goal[:, case.columns[pieces.idle]] = pieces.share
    return goal
