"""Rows and pieces to joules: the lag, the noise, the powers, and the energies with their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy import lag as lags
from handtorch.profile.energy.fit import Fit, Sums, best_score, fit, shares_of, sums, whitener
from handtorch.profile.energy.goal import Energies, energies
from handtorch.profile.energy.join import Pieces
from handtorch.profile.energy.model import Floats, Ints
from handtorch.profile.energy.noise import PARTS, Noise, blocks_of, column, noise_of
from handtorch.profile.energy.sense import Rows, touch

_TRIAL_ROWS = 2560              # that are enough to find the lag roughly, and the noise
_LOOSE = 3.0                    # idle is not like an operation: it is held less
_PLAIN = np.array([1.0] + [0.0] * (len(PARTS) - 1))


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


@dataclass(frozen=True)
class _Case:
    """All that stays while lags and noises are tried."""

    pieces: Pieces
    columns: Ints
    count: int
    loose: Floats
    blur: float

    def x(self, rows: Rows, lag: float) -> Floats:
        found = touch(self.pieces, rows, np.full(len(rows), lag), self.blur)
        return column(self.pieces, found, len(rows), self.columns, self.count)

    def noise(self, rows: Rows, lag: float, power: Floats) -> Noise:
        found = touch(self.pieces, rows, np.full(len(rows), lag), self.blur)
        x = column(self.pieces, found, len(rows), self.columns, self.count)
        least = 0.05 * float(np.abs(power).mean())
        return noise_of(self.pieces, rows, found, x, np.maximum(power, least), self.columns)


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
                rows.value[kept])


def estimate(pieces: Pieces, rows: Rows) -> Estimate:
    """The energies of all operations in steps that count."""
    columns = columns_of(pieces, rows)
    count = int(columns.max()) + 1
    loose = np.where(np.arange(count) < pieces.ops, 1.0, _LOOSE)
    half = float(np.median(rows.half))
    case = _Case(pieces, columns, count, loose, 1.0)
    if rows.kind == "instant":
        case = max((case, _Case(pieces, columns, count, loose, 0.0)),
                   key=lambda c: _plain(c, _trial(rows), 0.0)[0])
    some = _trial(rows)
    period = float(np.median(np.diff(rows.at))) if len(rows) > 1 else 0.0
    first = lags.coarse(lambda lag: _plain(case, some, lag)[0], half, period)
    best = float(first.lag[int(np.argmax(first.weight))])
    power = fit(_plain(case, some, best)[1], loose).power
    for _ in range(2):
        noise = case.noise(some, best, power)
        x = case.x(some, best)
        shares = shares_of(noise, x, some.value, loose)
        white, log_det = whitener(noise, shares)
        power = fit(sums(white, log_det, noise, x, some.value), loose).power
    return _whole(case, rows, first, best, power, shares, half)


def _plain(case: _Case, rows: Rows, lag: float) -> tuple[float, Sums]:
    """(score, sums) as if rows erred alone and alike."""
    x = case.x(rows, lag)
    given = Sums(x.T @ x, x.T @ rows.value, float(rows.value @ rows.value), len(rows), 0.0)
    return best_score(given, case.loose), given


def _whole(case: _Case, rows: Rows, first: lags.Shifts, best: float, power: Floats,
           shares: Floats, half: float) -> Estimate:
    """The same with all rows, and over all likely lags."""
    noise = case.noise(rows, best, power)
    white, log_det = whitener(noise, shares)
    kept: dict[float, Fit] = {}

    def score(lag: float) -> float:
        kept[lag] = fit(sums(white, log_det, noise, case.x(rows, lag), rows.value), case.loose)
        return kept[lag].score

    shifts = lags.fine(lags.weighed(first.likely(), score, half), score, half)
    middle = shifts.mean
    noise = case.noise(rows, middle, power)
    white, log_det = whitener(noise, shares)
    x = case.x(rows, middle)
    found = fit(sums(white, log_det, noise, x, rows.value), case.loose)
    goal = _goal(case)
    joules = energies(noise, shares, white, x, rows.value, found, goal)
    powers = np.array([kept[float(lag)].power for lag in shifts.lag])
    mean = shifts.weight @ powers
    apart = (powers - mean) * np.sqrt(shifts.weight)[:, None]
    spread = apart.T @ apart
    power = found.power
    return Estimate(power, found.covariance + spread,
                    Energies(joules.mean, joules.covariance + goal @ spread @ goal.T),
                    shifts, rows.value - x @ power, found.freedom, case.columns)


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
