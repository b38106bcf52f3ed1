"""Estimates follow a place: its curve over load, its changes, and not its outliers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.offload.estimate import Estimate

NOISE = 0.05


def fed(calls: int, latency_s: float, *, share: float | None = 0.0, seed: int = 0,
        into: Estimate | None = None, every_s: float = 0.05, start_s: float = 0.0) -> Estimate:
    draw, estimate = random.Random(seed), into or Estimate()
    for k in range(calls):
        estimate.learn(share, latency_s * draw.lognormvariate(0, NOISE), start_s + k * every_s)
    return estimate


@given(st.floats(1e-5, 10), st.one_of(st.none(), st.floats(0, 1)), st.integers(0, 1000))
def test_a_steady_place_is_known_after_twenty_calls(
        latency_s: float, share: float | None, seed: int) -> None:
    found = fed(20, latency_s, share=share, seed=seed).predict(share)
    assert found == pytest.approx(latency_s, rel=3 * NOISE)


def test_before_anything_else_is_known_a_core_is_shared_fairly() -> None:
    estimate = fed(20, 0.005)
    assert estimate.predict(0.75) == pytest.approx(4 * estimate.predict(0.0), rel=0.05)


def test_the_curve_is_learned_where_it_is_not_that_of_a_fair_scheduler() -> None:
    draw, estimate = random.Random(1), Estimate()
    for k in range(2000):
        share = draw.uniform(0, 0.9)
        estimate.learn(share, 0.005 * (1 + share) * draw.lognormvariate(0, NOISE), 0.05 * k)
    for share in (0.0, 0.3, 0.5, 0.8):
        assert estimate.predict(share) == pytest.approx(0.005 * (1 + share), rel=0.10), share


@given(st.floats(3, 1000), st.integers(0, 100))
def test_one_outlier_moves_little(times: float, seed: int) -> None:
    estimate = fed(100, 0.005, seed=seed)
    before = estimate.predict(0.0)
    estimate.learn(0.0, 0.005 * times, 5.0)
    assert estimate.predict(0.0) < 1.10 * before


@given(st.floats(1.5, 20), st.booleans())
def test_a_change_is_believed_after_a_few_calls(times: float, slower: bool) -> None:
    now_s = 0.005 * times if slower else 0.005 / times
    estimate = fed(200, 0.005)
    fed(6, now_s, into=estimate, start_s=10.0)
    assert estimate.predict(0.0) == pytest.approx(now_s, rel=0.15)


def test_after_a_long_pause_one_call_counts_for_more() -> None:
    soon, late = fed(100, 0.005), fed(100, 0.005)
    soon.learn(0.0, 0.006, 5.0)
    late.learn(0.0, 0.006, 305.0)
    assert soon.predict(0.0) < 0.0053 < 0.0057 < late.predict(0.0)
