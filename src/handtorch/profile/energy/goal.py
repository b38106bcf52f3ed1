"""From powers to the energies asked for: what the instances took that were really measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.fit import Fit
from handtorch.profile.energy.model import Floats
from handtorch.profile.energy.noise import Noise


@dataclass(frozen=True)
class Energies:
    """Joules of each operation, and their covariance."""

    mean: Floats
    covariance: Floats


def energies(noise: Noise, shares: Floats, white: Floats, x: Floats, y: Floats, found: Fit,
             goal: Floats) -> Energies:
    """`goal` [operation, column] are seconds: powers times these, and what is known of each
    instance's difference from its operation's power, from the rows that it is in.

    An instance that was read through errs by the noise of the readings only; one that was not by
    all that instances differ."""
    unit = noise.blocks
    joint = np.tensordot(shares, noise.joint, axes=1) @ white.transpose(0, 2, 1)
    wide = white @ unit.cut(x)
    rest = white @ unit.cut(y - x @ found.power)[..., None]
    mean = goal @ found.power + (joint @ rest).sum(axis=0)[:, 0]
    turn = goal - (joint @ wide).sum(axis=0)
    known = np.einsum("bki,bli->kl", joint, joint, optimize=True)
    own = np.tensordot(shares, noise.own, axes=1) - known
    covariance = turn @ found.covariance @ turn.T + found.unit * (own + own.T) / 2
    return Energies(mean, covariance)
