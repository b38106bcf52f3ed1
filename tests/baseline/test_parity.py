"""Whether two sides computed the same."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.baseline.parity import LATER, STEP1, losses_agree, losses_off, outputs_off

NAN = float("nan")


def test_each_step_has_its_worst_loss() -> None:
    ours, theirs = [[1.0, 2.0], [4.0, 1.0]], [[1.0, 1.0], [5.0, 1.0]]
    assert losses_off(ours, theirs) == pytest.approx((1.0, 0.2))


def test_a_loss_of_nothing_is_not_divided_by() -> None:
    assert losses_off([[1e-7]], [[0.0]]) == pytest.approx((0.1,))


@pytest.mark.parametrize("off, fine", [
    ((STEP1, LATER, LATER), True), ((2 * STEP1, 0.0), False), ((0.0, 2 * LATER), False),
    ((), False)])
def test_the_first_must_agree_and_later_ones_may_drift(off: tuple[float, ...], fine: bool) -> None:
    assert losses_agree(off) is fine


def test_what_is_no_number_never_agrees() -> None:
    assert losses_off([[NAN]], [[1.0]]) == (float("inf"),)
    assert losses_off([[NAN]], [[NAN]]) == (float("inf"),)
    assert outputs_off([np.array([NAN])], [np.array([1.0])]) == float("inf")


def test_outputs_are_off_by_their_largest() -> None:
    theirs = [np.array([100.0, 0.0]), np.array([1.0])]
    assert outputs_off([np.array([100.0, 1.0]), np.array([1.001])], theirs) == pytest.approx(0.01)
    assert outputs_off([np.array([100.0, 0.0])], theirs) == float("inf")
    assert outputs_off([np.zeros(0)], [np.zeros(0)]) == 0.0
