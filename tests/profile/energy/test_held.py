"""A value that is held says nothing new until it is renewed."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.profile.energy.held import renewals
from handtorch.profile.energy.model import Floats
from handtorch.profile.energy.sense import Rows


def _rows(at: Floats, made: Floats) -> Rows:
    """Readings at `at` of values that were made at `made`, each another one."""
    value = np.random.default_rng(1).normal(5, 1, len(made))
    return Rows("window", 0.1, at, at, at * 0, value[np.searchsorted(made, at, side="right") - 1])


def test_regular_renewals_are_known_better_than_one_reading_tells() -> None:
    rng = np.random.default_rng(0)
    at = np.asarray(np.arange(2000) * 0.01 + rng.uniform(-2e-3, 2e-3, 2000) + 0.2, np.float64)
    made = np.asarray(np.arange(210) * 0.1 + 0.0137, np.float64)
    found = renewals(_rows(at, made))
    assert found is not None
    assert len(found) == pytest.approx(200, abs=2)
    off = (found.at - 0.0137 + 0.05) % 0.1 - 0.05
    assert np.abs(off).max() < 2e-3
    assert (np.abs(off) <= found.half).all()


def test_renewals_of_any_time_lie_between_two_readings() -> None:
    rng = np.random.default_rng(0)
    at = np.asarray(np.arange(2000) * 0.01 + 0.2, np.float64)
    made = np.asarray(np.arange(210) * 0.1 + rng.uniform(-0.012, 0.012, 210), np.float64)
    found = renewals(_rows(at, made))
    assert found is not None
    near = made[np.argmin(np.abs(made[:, None] - found.at), axis=0)]
    assert found.half == pytest.approx(0.005)
    assert (np.abs(near - found.at) <= found.half + 1e-12).all()


def test_equal_neighbours_by_chance_are_no_held_value() -> None:
    rng = np.random.default_rng(0)
    at = np.asarray(np.arange(2000) * 0.01, np.float64)
    value = rng.integers(0, 2, 2000).astype(np.float64)
    assert renewals(Rows("instant", 0.0, at, at, at * 0, value)) is None


def test_a_value_that_never_changes_and_a_counter_are_left_alone() -> None:
    at = np.asarray(np.arange(100) * 0.01, np.float64)
    assert renewals(Rows("window", 0.1, at, at, at * 0, at * 0 + 5)) is None
    assert renewals(Rows("counter", 0.1, at, at + 0.01, at * 0, np.floor(at * 10))) is None
