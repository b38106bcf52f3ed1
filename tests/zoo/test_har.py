"""The MobiRNN network as a torch module."""

from __future__ import annotations

import numpy as np
import torch

from handtorch.kernels.lstm import exact_scores
from handtorch.kernels.lstm_weights import random_weights
from handtorch.zoo.har import HarLSTM, har_model


def test_weights_become_a_torch_module() -> None:
    weights = random_weights(11, 3, signals=4, classes=2)
    x = np.random.default_rng(0).normal(0, 1, (5, 6, 4)).astype("f4")
    with torch.no_grad():
        scores = har_model(weights)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(scores, exact_scores(weights, x.swapaxes(0, 1)), atol=1e-6)


def test_sizes_of_the_paper() -> None:
    """The paper counts the LSTM alone, with one bias: 2 x 128 has 263 thousand."""
    lstm = HarLSTM(128, 2).lstm
    assert sum(p.numel() for n, p in lstm.named_parameters() if "bias_hh" not in n) == 263_168
