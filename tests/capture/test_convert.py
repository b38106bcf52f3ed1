"""What is traced but cannot be in a graph of ours, with the user's line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from handtorch.capture.step import capture_function
from handtorch.errors import HandTorchError
from tests.capture.user_steps import said

X = torch.zeros(4, 3)


def where_positive(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


def picked(x: torch.Tensor) -> torch.Tensor:
    return x.masked_select(x > 0)


def nothing(x: torch.Tensor) -> torch.Tensor:
    return (x * 2)[:0]


def over_nothing(x: torch.Tensor) -> torch.Tensor:
    return x[:, :0] @ x[:0, :]


def loss_of_nothing(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.nll_loss(x[:0], x[:0, 0].long())


def large(x: torch.Tensor) -> torch.Tensor:
    return x.long() + 2**40


DEPENDS = ("the size of its result depends on data, and the device's memory is planned before\n"
           "  from test_convert.py  {}\n"
           "  try: all elements and a mask: torch.where(mask, x, other)")


@pytest.mark.parametrize(("fn", "message"), [
    (where_positive, "aten.nonzero: " + DEPENDS.format("return x.nonzero()")),
    (picked, "aten.masked_select: " + DEPENDS.format("return x.masked_select(x > 0)")),
    (nothing, "loss is empty, of shape [0, 3]: there is nothing to compute and to hand back\n"
              "  from test_convert.py  return (x * 2)[:0]\n"
              "  try: slices and layers without sides of 0"),
    (over_nothing, "matmul of a tensor of shape [4, 0]: it is empty\n"
                   "  from test_convert.py  return x[:, :0] @ x[:0, :]\n"
                   "  try: slices and layers without sides of 0"),
    (loss_of_nothing, "nll_loss of a tensor of shape [0, 3]: it is empty\n  from test_convert.py  "
                      "return torch.nn.functional.nll_loss(x[:0], x[:0, 0].long())\n"
                      "  try: slices and layers without sides of 0"),
    (large, "the number 1099511627776 in a tensor of integers: the device has 32 bits for them\n"
            "  from test_convert.py  return x.long() + 2**40\n"
            "  try: a smaller number, or float32"),
], ids=lambda x: getattr(x, "__name__", ""))
def test_refused(fn: Callable[[torch.Tensor], torch.Tensor], message: str) -> None:
    with pytest.raises(HandTorchError) as e:
        capture_function(fn, [X])
    assert said(e) == message
