"""Whether a side's numbers are believed."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.bench.case import Case
from handtorch.bench.outcome import Outcome, checked, checked_again, ratios
from handtorch.store.tensors import Array

TRAIN, INFER = Case("train", "Model1", 4), Case("infer", "Model1", 4)


def calls(*losses: float) -> list[tuple[Array, ...]]:
    return [(np.array(loss, "f4"),) for loss in losses]


def test_right_losses_are_believed() -> None:
    off, why = checked(TRAIN, calls(2.0, 1.01, 0.5), calls(2.0, 1.0, 0.5))
    assert (off, why) == (pytest.approx((0.0, 0.01, 0.0), abs=1e-6), "")


def test_a_first_loss_that_differs_is_told() -> None:
    off, why = checked(TRAIN, calls(2.01, 1.0, 0.5), calls(2.0, 1.0, 0.5))
    assert off[0] == pytest.approx(0.005, rel=1e-3)
    assert why == "first loss 2.01, torch's 2; off by 0.005, 0, 0, allowed 1e-05, then 0.05"


def test_outputs_that_differ_are_told() -> None:
    right = [(np.array([1.0, 2.0]),)]
    assert checked(INFER, right, right) == ((0.0,), "")
    off, why = checked(INFER, [(np.array([1.0, 2.2]),)], right)
    assert off == (pytest.approx(0.1),)
    assert why == "results differ; off by 0.1, allowed 0.0001"


def test_another_number_of_results_is_told() -> None:
    assert checked(TRAIN, calls(1.0), calls(1.0, 2.0)) == ((), "it gives [1] results, not [1, 1]")


def test_after_training_a_loss_must_still_be_a_number() -> None:
    assert checked_again(TRAIN, calls(7.0), calls(2.0, 1.0)) == ""
    assert checked_again(TRAIN, calls(float("nan")), calls(2.0)) == "its loss has become nan"


def test_a_model_must_still_give_the_same() -> None:
    right = [(np.array([1.0]),), (np.array([3.0]),)]
    assert checked_again(INFER, right[:1], right) == ""
    assert checked_again(INFER, right[1:], right) == "results differ; off by 2, allowed 0.0001"


def test_ratios_are_of_the_same_round() -> None:
    ours = Outcome(TRAIN, "handtorch", "believed", seconds=(1.0, 2.0, 4.0))
    assert ratios(ours, Outcome(TRAIN, "torch", "believed", seconds=(2.0, 2.0, 2.0))) == (
        2.0, 1.0, 0.5)
    slow = Outcome(TRAIN, "tinygrad", "believed", seconds=(9.0,))     # had one turn only
    assert ratios(ours, slow) == (9.0,)
