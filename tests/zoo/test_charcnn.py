"""No look ahead: a character's score does not depend on what follows."""

from __future__ import annotations

import torch

from handtorch.zoo.charcnn import CharCNN


def test_the_future_is_not_seen() -> None:
    torch.manual_seed(0)
    model = CharCNN(embedded=4, maps=6, hidden=5)
    text = torch.randint(65, (2, 9))
    other = text.clone()
    other[:, 5:] = (other[:, 5:] + 1) % 65
    a, b = model(text), model(other)
    assert torch.equal(a[:, :, :5], b[:, :, :5])
    assert not torch.equal(a[:, :, 5], b[:, :, 5])
