"""Each zoo model, small form: 20 steps on each device end where torch's end, within rounding."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from handtorch.zoo.registry import MODELS
from tests.zoo.train_like_torch import TIMES, Weights, compare, rounding


@functools.cache
def truth(name: str) -> tuple[Weights, dict[str, float]]:
    return rounding(MODELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps_end_where_torch_ends(opencl_device: Any, name: str) -> None:
    outcome = compare(MODELS[name], opencl_device.label, truth(name))
    print(outcome.row())
    assert outcome.ratio <= TIMES, outcome.row()
    assert outcome.peak_bytes <= 1.05 * outcome.floor_bytes, outcome.row()
