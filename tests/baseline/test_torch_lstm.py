"""torch with a set number of threads, which it has no longer afterwards."""

from __future__ import annotations

import numpy as np
import torch

from handtorch.baseline.torch_lstm import TorchScores


def test_threads_are_set_for_each_call_and_given_back() -> None:
    before, seen = torch.get_num_threads(), list[int]()

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return 2 * x
    one, all_ = TorchScores(Model(), 1), TorchScores(Model())
    x = np.ones((1, 2), "f4")
    for side in (one, all_, one):
        np.testing.assert_array_equal(side.scores(x), 2 * x)
    one.close()
    assert seen == [1, before, 1]
    assert torch.get_num_threads() == before
