"""A torch module as a function of arrays."""

from __future__ import annotations

import numpy as np
import torch

from handtorch.baseline.torch_call import torch_call


def test_it_is_the_module_in_eval_mode() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5))
    x = np.ones((2, 4), "f4")
    before = torch.get_num_threads()
    try:
        call = torch_call(model, threads=1)
        assert torch.get_num_threads() == 1
        np.testing.assert_array_equal(call(x), model(torch.from_numpy(x)).detach().numpy())
        assert not model.training
    finally:
        torch.set_num_threads(before)
