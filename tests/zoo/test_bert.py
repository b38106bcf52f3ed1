"""Padding does not count: what stands behind the mask changes nothing before it."""

from __future__ import annotations

import torch

from handtorch.zoo.bert import span_loss
from handtorch.zoo.registry import MODELS


def test_masked_words_are_not_seen() -> None:
    torch.manual_seed(0)
    model = MODELS["BERT"].make(small=True)
    words, segments, _, _ = MODELS["BERT"].batch(2, small=True)
    mask = (torch.arange(words.shape[1]) < 9).expand_as(words)
    other = words.masked_fill(~mask, 7)
    assert not torch.equal(words, other)
    assert torch.equal(model(words, segments, mask)[:, :9], model(other, segments, mask)[:, :9])


def test_the_loss_is_the_mean_of_start_and_end() -> None:
    scores = torch.zeros(1, 4, 2)
    scores[0, 1, 0] = scores[0, 3, 1] = 50.0
    assert float(span_loss(scores, torch.tensor([[1, 3]]))) < 1e-6
    assert float(span_loss(scores, torch.tensor([[1, 2]]))) == 25.0
