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
_READS = 1e-4                       # share of the readings' own noise: never quite nothing
_LEAST = 1e-9                       # of the variance: keeps covariances regular
# Usual spread of an operation's power from one time to the next, and of a step's; see PARTS.
_VARIES = np.array([np.inf, np.inf, 0.1, 0.05])


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
    behind = noise.blocks.count * noise.blocks.size - noise.blocks.rows
    last = diagonal[noise.blocks.size - behind:]
    total[-1, last, last] = 1.0             # rows behind the end say nothing
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


class _Spectrum:
    """All taus from one eigendecomposition: with power = mean + tau x loose x z, the matrix of z
    is diagonal in the eigenvectors of the scaled Gram matrix, whatever tau is."""

    def __init__(self, given: Sums, loose: Floats) -> None:
        self.given, self.loose = given, loose
        value, self.vector = np.linalg.eigh(given.gram * np.outer(loose, loose))
        self.value = np.maximum(value, 0.0)
        self.cross = self.vector.T @ (loose * given.gram.sum(axis=0))
        self.right = self.vector.T @ (loose * given.right)
        size = float(np.median(np.diag(given.gram))) or float(np.diag(given.gram).max())
        self.taus = _TAUS / np.sqrt(max(size, 1e-300))      # a column says as much as noise hides

    def parts(self, tau: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """(diagonal, Schur complement of the mean, the mean, unit, score) for each tau."""
        square = tau[:, None] ** 2
        diagonal = square * self.value + 1.0
        whole = float(self.given.gram.sum())
        schur = np.maximum(whole - (square * self.cross**2 / diagonal).sum(axis=1), 1e-13 * whole)
        over = float(self.given.right.sum()) - (square * self.cross * self.right / diagonal).sum(1)
        told = (square * self.right**2 / diagonal).sum(axis=1) + over**2 / schur
        rest = np.maximum(self.given.square - told, max(1e-14 * self.given.square, 1e-300))
        freedom = max(self.given.rows - 1, 1)
        score = -0.5 * (freedom * np.log(rest) + self.given.log_det + np.log(schur)
                        + np.log(diagonal).sum(axis=1))
        return diagonal, schur, over / schur, rest / freedom, score

    def best(self) -> tuple[float, float]:
        """(score, unit) of the likeliest tau."""
        *_, unit, score = self.parts(self.taus)
        top = int(np.argmax(score))
        return float(score[top]), float(unit[top])

    def fit(self) -> Fit:
        top = self.taus[int(np.argmax(self.parts(self.taus)[4]))]
        taus = top * 10.0 ** np.arange(-1, 1.01, 0.2)
        diagonal, schur, mean, unit, score = self.parts(taus)
        weight = np.exp(score - score.max())
        weight /= weight.sum()
        turned = self.loose[:, None] * self.vector
        z = (self.right - self.cross * mean[:, None]) / diagonal
        powers = mean[:, None] + taus[:, None] ** 2 * (z @ turned.T)
        power = weight @ powers
        apart = (powers - power) * np.sqrt(weight)[:, None]
        covariance = apart.T @ apart
        for i, tau in enumerate(taus):
            lean = 1.0 - tau**2 * (turned @ (self.cross / diagonal[i]))
            inner = tau**2 * (turned / diagonal[i]) @ turned.T + np.outer(lean, lean) / schur[i]
            covariance += weight[i] * unit[i] * inner
        most = int(np.argmax(score))
        used = 1 + float((1 - 1 / diagonal[most]).sum())
        return Fit(power, covariance, float(weight @ unit), float(score.max()),
                   max(self.given.rows - used, 1.0))


def best(given: Sums, loose: Floats) -> tuple[float, float]:
    """(score, unit) of the likeliest tau."""
    return _Spectrum(given, loose).best()


def fit(given: Sums, loose: Floats) -> Fit:
    """The mean over all taus, each by its likelihood; its spread is in the covariance."""
    return _Spectrum(given, loose).fit()


def shares_of(noise: Noise, x: Floats, y: Floats, loose: Floats, start: Floats) -> Floats:
    """How much there is of each part of the noise: the likeliest, by turns, from `start` on.

    Power that varies so much that it could be anything would explain all readings: such shares
    are unlikely before any reading is seen (`_VARIES`)."""
    there = np.flatnonzero(noise.parts.any(axis=(1, 2, 3)))
    least = 1e-8

    def shares(log: Floats) -> Floats:
        found = np.zeros(len(PARTS))
        found[there] = 10.0 ** (log[there] - log[there].max())
        return found

    def score(log: Floats) -> float:
        share = shares(log)
        white, log_det = whitener(noise, share)
        value, unit = best(sums(white, log_det, noise, x, y), loose)
        with np.errstate(divide="ignore", invalid="ignore"):
            varies = np.where(noise.size > 0, unit * share / noise.size, 0.0)
        return value - 0.5 * float((varies / _VARIES**2).sum())

    log = np.log10(np.maximum(start, least))
    log[0] = max(log[0], log[there].max() + np.log10(_READS))
    top = score(log)
    for move in (3.0, 1.0, 0.4, 0.15):
        for _ in range(4):
            before = top
            for i in there:
                for way in (move, -move):
                    trial = log.copy()
                    trial[i] += way
                    below = trial - trial[there].max()
                    if below[i] < np.log10(least) or below[0] < np.log10(_READS):
                        continue
                    now = score(trial)
                    if now > top:
                        log, top = trial, now
                        break
            if top - before < 0.05:
                break
    return shares(log)
