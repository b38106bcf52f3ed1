"""Powers of operations by least squares, held towards their mean as far as the readings ask for.

    row = sum of weight x power + errors,     power = mean + tau x (a normal number)

The mean, tau, and how large the errors are come from the readings (restricted maximum likelihood),
so the spread of the result contains what the pull to the mean may have cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.model import Floats
from handtorch.profile.energy.noise import PARTS, Noise

_TAUS = 10.0 ** np.arange(-4, 4.1, 0.5)
_LEAST = 1e-9                       # of the variance: keeps covariances regular


@dataclass(frozen=True)
class Sums:
    """The rows, whitened and summed: all that a fit needs. `log_det` is of the covariance."""

    gram: Floats
    right: Floats
    square: float
    rows: int
    log_det: float


@dataclass(frozen=True)
class Fit:
    """Power of each column in W, its covariance, and the variance of one unit of noise."""

    power: Floats
    covariance: Floats
    unit: float
    score: float                    # log likelihood, but for a constant
    freedom: float


def mixed(noise: Noise, shares: Floats) -> Floats:
    """The covariance of each block for these shares of the parts."""
    total = np.tensordot(shares, noise.parts, axes=1)
    diagonal = np.arange(noise.blocks.size)
    total[:, diagonal, diagonal] += _LEAST * total[:, diagonal, diagonal].max()
    return np.asarray(total)


def whitener(noise: Noise, shares: Floats) -> tuple[Floats, float]:
    """(inverse of the Cholesky factor of each block, log of the determinant of them all)."""
    factor = np.linalg.cholesky(mixed(noise, shares))
    log_det = 2 * float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
    return np.linalg.inv(factor), log_det


def sums(white: Floats, log_det: float, noise: Noise, x: Floats, y: Floats) -> Sums:
    flat_x = (white @ noise.blocks.cut(x)).reshape(-1, x.shape[1])
    flat_y = (white @ noise.blocks.cut(y)[..., None]).reshape(-1)
    return Sums(flat_x.T @ flat_x, flat_x.T @ flat_y, float(flat_y @ flat_y), len(y), log_det)


def _at(given: Sums, loose: Floats, tau: float) -> tuple[Floats, Floats, float, float]:
    """(power, covariance / unit, unit, score) for one tau, in units of the noise."""
    change = np.column_stack([np.diag(tau * loose), np.ones(len(loose))])
    inner = change.T @ given.gram @ change
    inner[np.arange(len(loose)), np.arange(len(loose))] += 1.0
    inner[np.diag_indices_from(inner)] *= 1 + 1e-12         # rounding must not make it negative
    right = change.T @ given.right
    factor = np.linalg.cholesky(inner)
    half = np.linalg.solve(factor, right)
    freedom = max(given.rows - 1, 1)
    rest = max(given.square - float(half @ half), 1e-14 * given.square, 1e-300)
    back = np.linalg.solve(factor, change.T)
    score = -0.5 * (freedom * np.log(rest) + given.log_det
                    + 2 * float(np.log(np.diag(factor)).sum()))
    return back.T @ half, back.T @ back, rest / freedom, score


def best_score(given: Sums, loose: Floats, taus: Floats = _TAUS) -> float:
    return max(_at(given, loose, tau)[3] for tau in _scaled(given, loose, taus))


def _scaled(given: Sums, loose: Floats, taus: Floats) -> Floats:
    """Taus in units in which a column says as much as the noise hides."""
    size = float(np.median(np.diag(given.gram)))
    if size <= 0:
        size = max(float(np.diag(given.gram).max()), 1e-300)
    return np.asarray(taus / np.sqrt(size))


def fit(given: Sums, loose: Floats) -> Fit:
    """The mean over all taus, each by its likelihood; its spread is in the covariance."""
    coarse = _scaled(given, loose, _TAUS)
    top = coarse[int(np.argmax([_at(given, loose, tau)[3] for tau in coarse]))]
    found = [_at(given, loose, tau) for tau in top * 10.0 ** np.arange(-1, 1.01, 0.2)]
    score = np.array([one[3] for one in found])
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    powers = np.array([one[0] for one in found])
    power = weight @ powers
    unit = float(weight @ [one[2] for one in found])
    within = sum(w * one[1] * one[2] for w, one in zip(weight, found, strict=True))
    apart = (powers - power) * np.sqrt(weight)[:, None]
    used = float(np.trace(found[int(np.argmax(score))][1] @ given.gram))
    return Fit(power, np.asarray(within + apart.T @ apart), unit, float(score.max()),
               max(given.rows - used, 1.0))


def shares_of(noise: Noise, x: Floats, y: Floats, loose: Floats) -> Floats:
    """How much there is of each part of the noise: the likeliest, by turns, in factors of 2."""
    there = [i for i in range(len(PARTS)) if noise.parts[i].any()]
    shares = np.array([1.0 if i in there else 0.0 for i in range(len(PARTS))])

    def score(log: Floats) -> float:
        share = np.where(shares > 0, 10.0 ** (log - log[there].max()), 0.0)
        white, log_det = whitener(noise, share)
        return best_score(sums(white, log_det, noise, x, y), loose, _TAUS[::2])

    log = np.array([0.0, -1.0, -1.0, -2.0])
    best = score(log)
    for move in (2.0, 1.0, 0.5, 0.2):
        for _ in range(3):
            before = best
            for i in there:
                for way in (move, -move):
                    trial = log.copy()
                    trial[i] += way
                    if trial[i] - trial[there].max() < -8:
                        continue
                    now = score(trial)
                    if now > best + 1e-9:
                        log, best = trial, now
                        break
            if best - before < 0.05:
                break
    return np.where(shares > 0, 10.0 ** (log - log[there].max()), 0.0)
