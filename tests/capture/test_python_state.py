"""A step that remembers something in Python is refused, and leaves nothing behind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from handtorch.capture.step import capture_inference
from handtorch.errors import CannotCapture
from tests.capture.user_steps import said

X = torch.zeros(4, 3)
INSTEAD = ("  try: register_buffer and write with copy_() or add_() what the next step needs; "
           "return from the step what you want to look at")


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Remembering(nn.Module):
    last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.last is None else x + self.last
        self.last = y.detach()
        return y


class Restrained(nn.Module):
    """What depends on nothing but shapes and is set for the first time, and names, are harmless."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows, self.kind = len(x), "matrix"
        return x * self.rows


def test_a_counter() -> None:
    model = nn.Sequential(Counting())
    with pytest.raises(CannotCapture) as e:
        capture_inference(model, (X,))
    assert said(e) == (
        "attribute 'calls' of Counting 0 changes in the step: from 0 to 1, once, when the step was "
        f"captured\n  from test_python_state.py  self.calls += 1\n{INSTEAD}")
    assert model[0].calls == 0


def test_a_tensor_for_the_next_call() -> None:
    model = Remembering()
    with pytest.raises(CannotCapture) as e:
        capture_inference(model, (X,))
    assert said(e) == (
        "attribute 'last' of Remembering changes in the step: from None to a tensor of shape "
        "[4, 3], once, when the step was captured\n"
        f"  from test_python_state.py  self.last = y.detach()\n{INSTEAD}")
    assert "last" not in vars(model)


def test_what_does_no_harm() -> None:
    capture_inference(Restrained(), (X,))


class Tossing(nn.Module):
    def __init__(self, toss: Any) -> None:
        super().__init__()
        self.toss = toss

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.toss()


@pytest.mark.parametrize(("toss", "whose"), [(random.random, "Python's"),
                                             (np.random.rand, "NumPy's")])
def test_random_numbers_drawn_by_python(toss: Any, whose: str) -> None:
    with pytest.raises(CannotCapture) as e:
        capture_inference(Tossing(toss), (X,))
    assert said(e) == (
        f"{whose} random numbers in the step: they were drawn once, when it was captured; every "
        "call would use the same\n"
        "  try: torch.rand, which the device draws anew in each step, or draw outside and give "
        "them as an input")
    capture_inference(Tossing(lambda: torch.rand(3)), (X,))
