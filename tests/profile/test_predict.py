"""Prediction on planted sequences: each kind of run has its estimator, and no look ahead."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.profile.predict import Foresight, levels, of_run, predictability, results, told
from handtorch.record import Clock, Run, RunInfo, Step

MS = 1_000_000.0


def noisy(count: int, level: float, share: float, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.uniform(-share, share)) for _ in range(count)]


def test_a_constant_step_is_known_after_one() -> None:
    found = predictability([5 * MS] * 30)
    assert found is not None
    assert (found.needed, found.estimator, found.levels) == (1, "present level", (0,))
    assert set(found.errors.values()) == {0.0}
    assert [f.error for f in found.forecasts] == [0.0] * len(found.forecasts)


def test_warm_up_is_left_behind() -> None:
    found = predictability([50 * MS, 20 * MS, 12 * MS, *noisy(60, 10 * MS, 0.01)])
    assert found is not None and found.needed is not None
    assert 3 <= found.needed <= 6
    assert found.levels in {(0, 2), (0, 1), (0, 3)}
    after_ten = next(f for f in found.forecasts if f.seen == 10)
    assert after_ten.error is not None and abs(after_ten.error) < 0.01


def test_noise_is_foretold_by_a_median_not_by_the_last_step() -> None:
    found = predictability(noisy(100, 10 * MS, 0.15))
    assert found is not None and found.needed is not None and found.needed <= 40
    assert found.estimator == "present level"
    assert found.errors["present level"] < found.errors["last step"]
    assert found.levels == (0,)
    assert 0.03 < found.errors[found.estimator] < 0.12


def test_drift_is_followed_by_the_line() -> None:
    times = [10 * MS * (1 + 0.01 * i) for i in range(80)]
    found = predictability(times)
    assert found is not None and found.estimator == "line"
    assert found.errors["line"] < 0.001 < found.errors["present level"]
    late = next(f for f in found.forecasts if f.seen == 20)
    assert late.estimator == "line" and late.error is not None and abs(late.error) < 0.05


def test_throttling_is_a_new_level_three_steps_later() -> None:
    times = [*noisy(40, 10 * MS, 0.01), *noisy(40, 16 * MS, 0.01, seed=1)]
    found = predictability(times)
    assert found is not None and found.levels == (0, 40)
    assert found.needed is not None and 41 <= found.needed <= 45
    sight = Foresight()
    for time in times[:43]:
        sight.see(time)
    assert sight.rest(10).predicted_ns == pytest.approx(160 * MS, rel=0.02)


def test_one_slow_step_is_no_level() -> None:
    times = [10 * MS] * 20 + [30 * MS] + [10 * MS] * 20
    assert levels(times) == (0,)
    sight = Foresight()
    for time in times[:21]:
        sight.see(time)
    assert sight.rest(20).predicted_ns == 200 * MS


def test_nothing_is_said_of_one_step() -> None:
    assert predictability([MS]) is None and predictability([]) is None


def test_a_run_that_cannot_be_foretold_says_so() -> None:
    found = predictability([MS * (1 + 0.1 * (i % 3)) for i in range(11)] + [3 * MS])
    assert found is not None and found.needed is None
    assert "No beginning of the run foretold its rest within 5 %.\n" in told(found)
    assert "\n  after    5 steps: 7 more take 7.7 ms, took 9.6 ms (-19.8 %)\n" in told(found)
    found = predictability([MS, 2 * MS])
    assert found is not None and told(found) == (
        "How well the next step is foretold takes 10 steps to say, and here are 2.")
    wild = predictability([MS * 10 ** (i % 3) for i in range(12)])
    assert wild is not None and told(wild) == (
        "The time of the next step cannot be foretold: the 12 steps here differ too much.")
    (*_, row) = results("m", "gpu", found)
    assert row.value is None
    assert row.value_reason == "no beginning of these 2 steps did"


@given(st.lists(st.floats(1e3, 1e9), min_size=2, max_size=40), st.floats(0.1, 10))
def test_scale_changes_no_error(times: list[float], scale: float) -> None:
    a, b = predictability(times), predictability([t * scale for t in times])
    assert a is not None and b is not None
    assert a.levels[0] == b.levels[0] == 0
    assert min(a.errors.values()) >= 0
    if a.levels == b.levels and a.estimator == b.estimator:
        assert a.errors[a.estimator] == pytest.approx(b.errors[b.estimator], rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(1e3, 1e9), min_size=3, max_size=30))
def test_no_look_ahead(times: list[float]) -> None:
    """What is said after k steps does not depend on those that follow."""
    early, late = Foresight(), Foresight()
    for time in times[:-1]:
        early.see(time)
        late.see(time)
    said = early.rest(7)
    late.see(times[-1])
    assert early.rest(7) == said and late.used[:len(early.used)] == early.used


def test_a_run_gives_one_answer_for_each_subject_and_place() -> None:
    steps = tuple(Step(id=10 * p + i, place=place, subject="m", number=i, kind="training",
                       clock="c", start_ns=i * 1000, end_ns=i * 1000 + 500 + 100 * p,
                       provenance="measured")
                  for p, place in enumerate(("gpu", "cpu")) for i in range(4))
    run = Run(info=RunInfo(id="1", command="", started_utc=""), steps=steps,
              clocks=(Clock(name="c", offset_ns=0, error_ns=0, provenance="measured"),))
    found = of_run(run)
    assert list(found) == [("m", "gpu"), ("m", "cpu")]
    names = [r.name for r in results("m", "gpu", found["m", "gpu"])]
    assert names == [*["error of the next step"] * 3, *["error of the rest of the run"] * 3,
                     "steps that foretell the rest within 5 %"]
