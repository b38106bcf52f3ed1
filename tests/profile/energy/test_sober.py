"""Errors that more readings do not make smaller, and rows that are not of the noise found."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.profile.energy.noise import Blocks, Noise
from handtorch.profile.energy.sober import rounding, without_far


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.1, 0.3])
def test_rounding_errs_as_a_rounded_normal_value_does(sigma: float) -> None:
    step, power = 0.4, np.linspace(3.0, 5.0, 500, endpoint=False)
    noise = np.random.default_rng(0).normal(0, sigma, 4000)
    bias = np.array([(np.rint((p + noise) / step) * step).mean() - p - noise.mean()
                     for p in power])
    said = rounding(step, sigma**2 + step**2 / 12, power, 0.0)
    assert np.sqrt(said).mean() == pytest.approx(np.sqrt((bias**2).mean()), rel=0.1, abs=4e-3)


def test_no_steps_no_rounding_and_power_that_varies_dithers() -> None:
    assert not rounding(0.0, 0.0, np.ones(3), 0.0).any()
    still, varied = (rounding(0.4, 0.4**2 / 12, np.array([10.0]), v)[0] for v in (0.0, 0.03**2))
    assert still == pytest.approx(0.4**2 / 12, rel=0.02)
    assert varied < 0.1 * still


def test_a_row_that_is_far_off_counts_for_nothing() -> None:
    noise = Noise(Blocks(6, 4), np.tile(np.eye(4), (4, 2, 1, 1)), np.zeros((4, 2, 1, 4)),
                  np.zeros((4, 1, 1)), np.ones(4))
    shares = np.array([1.0, 0.0, 0.0, 0.0])
    left = np.array([1.0, -2.0, 0.5, 3.0, 20.0, 0.0])
    found, far = without_far(noise, shares, left, 1.0)
    assert far == 1
    own = np.diagonal(found.parts[0], axis1=1, axis2=2).reshape(-1)
    assert own.tolist() == [1, 1, 1, 1, 401, 1, 1, 1]
    assert without_far(noise, shares, left * 0.1, 1.0)[1] == 0
