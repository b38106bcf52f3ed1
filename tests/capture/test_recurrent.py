"""What recurrent layers cannot do is refused, with the user's line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from handtorch.capture.recurrent import recurrent_ops
from handtorch.capture.step import capture_function, capture_inference
from handtorch.errors import CannotCapture


def said(model: Any, *example: torch.Tensor) -> list[str]:
    """The error without the file and line, which move."""
    with pytest.raises(CannotCapture) as e:
        capture_inference(model, example)
    return [line for line in str(e.value).splitlines() if "from " not in line]


def test_projections() -> None:
    assert said(torch.nn.LSTM(3, 6, proj_size=2), torch.randn(4, 2, 3)) == [
        "LSTM with proj_size: projections are not known",
        "  try: proj_size=0, and a Linear after the layer"]


class Packing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(3, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.gru(pack_padded_sequence(x, [4, 2]))
        out: torch.Tensor = y.data
        return out


PACKED = ["a packed sequence: its shape depends on the lengths, which only the device will know",
          "  try: padded sequences, and a mask in the loss"]


def test_packed_sequences() -> None:
    assert said(Packing(), torch.randn(4, 2, 3)) == PACKED


def test_a_sequence_packed_outside() -> None:
    gru, sizes = torch.nn.GRU(3, 6), torch.tensor([2, 1])
    with recurrent_ops(), pytest.raises(CannotCapture, match=PACKED[0]):
        torch._VF.gru(torch.randn(3, 3), sizes, torch.zeros(1, 2, 6), gru._flat_weights, True, 1,
                      0.0, False, False)


def test_second_derivatives() -> None:
    gru = torch.nn.GRU(3, 4)

    def fn(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        named = dict(zip([n for n, _ in gru.named_parameters()], weights, strict=True))
        y, _ = torch.func.functional_call(gru, named, (x,))
        (g,) = torch.autograd.grad(y.sum(), [x], create_graph=True)
        return torch.autograd.grad((g * g).sum(), [x])[0]

    with pytest.raises(CannotCapture, match="the gradient of a recurrent layer's gradient"):
        capture_function(fn, [torch.randn(2, 1, 3), *(p.detach() for p in gru.parameters())])


def test_torch_is_itself_again_after_a_refusal() -> None:
    before = torch._VF.lstm
    said(torch.nn.LSTM(3, 6, proj_size=2), torch.randn(4, 2, 3))
    assert torch._VF.lstm is before
    assert torch.nn.LSTM(3, 6, proj_size=2)(torch.randn(4, 2, 3))[0].shape == (4, 2, 2)
