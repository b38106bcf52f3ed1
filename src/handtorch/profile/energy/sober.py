"""Errors as large as they are, where a fit took them as smaller."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from handtorch.profile.energy.fit import Fit, mixed
from handtorch.profile.energy.model import Floats
from handtorch.profile.energy.noise import Noise
from handtorch.profile.energy.sense import Rows

_EXACT, _USUAL = 1e-3, 0.8      # of the error of a usual row; those at edges err far more
_FAR = 4.0                      # standard deviations: beyond, a row is not of this noise
_SINES = 50
_DITHER = 0.3                   # of the variance between instances, as seen in simulations
_NARROW = {"instant": 1.35, "counter": 1.25}    # too small a variance, as seen in simulations


def without_far(noise: Noise, shares: Floats, left: Floats, unit: float) -> tuple[Noise, int]:
    """The noise in which a row that is `_FAR` off may be, and how many these are: its time was not
    that of its operation (an edge between two comparisons of clocks), or something else ran."""
    blocks = noise.blocks
    size = np.diagonal(mixed(noise, shares), axis1=1, axis2=2).reshape(-1)[:blocks.rows] * unit
    far = left**2 > _FAR**2 * size
    if not far.any() or shares[0] == 0:
        return noise, 0
    parts = noise.parts.copy()
    diagonal = np.arange(blocks.size)
    extra = np.where(far, left**2 / max(unit, 1e-300) / shares[0], 0.0)
    parts[0, :, diagonal, diagonal] += blocks.cut(extra).T
    return replace(noise, parts=parts), int(far.sum())


def sobered(found: Fit, white: Floats, rows: Rows) -> Fit:
    """Rows that follow from others to the last digit (an ideal sensor twice in one instance) show
    no error of their own, so they count for none; and the shares of the noise are found, not known:
    each column that was fitted hides a part of it. Rows at the edges of blocks are not as
    independent as taken; and what is uncertain in time (an instant at an edge, the age of a
    counter's value) is not normal, nor small beside short operations: `_NARROW`."""
    count = len(rows)
    own = 1.0 / np.diagonal(white, axis1=1, axis2=2).reshape(-1)[:count] ** 2
    real = max(int((own > _EXACT * np.quantile(own, _USUAL)).sum()), 1)
    period = (rows.at[-1] - rows.at[0]) / max(count - 1, 1)
    shared = {"window": 1.0, "lowpass": 3.0}.get(rows.kind, 0.0) * rows.span / max(period, 1e-12)
    wider = count / real * (1 + 2 * (count - found.freedom) / count)
    wider *= 1 + min(shared / white.shape[1], 1.0)
    wider *= _NARROW.get(rows.kind, 1.0) if rows.span or rows.half.any() else 1.0
    return replace(found, covariance=found.covariance * wider, unit=found.unit * wider)


def rounding(least: float, reads: float, power: Floats, varies: float) -> Floats:
    """The variance of each column's power by rounding to steps of `least`, in W^2.

    It does not fall with more readings: the same power is always rounded the same way, but for what
    noise (`reads`, a variance that has the rounding in it) and the power's own variance (`varies`,
    relative) dither. The mean of a rounded normal value is off by sines of the value, with the
    amplitudes least / (pi k) x exp(-2 (pi k sigma / least)^2)."""
    if least <= 0:
        return np.zeros(len(power))
    dither = max(reads - least**2 / 12, 0.0) + _DITHER * varies * power**2
    k = np.arange(1, _SINES + 1)[:, None] * np.pi
    sines = least**2 / (2 * k**2) * np.exp(-4 * k**2 * dither / least**2)
    return np.asarray(sines.sum(axis=0))
