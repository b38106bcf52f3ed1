"""The LSTM as two places: one answer."""

from __future__ import annotations

import numpy as np
import torch

from handtorch.offload.har import device_har, torch_har, windows
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.zoo.har import seeded


def test_both_places_give_the_same_scores(opencl_device: FoundDevice) -> None:
    x = windows(11)
    np.testing.assert_allclose(device_har(8, opencl_device.label)(x), torch_har()(x), atol=1e-5)


def test_a_seed_gives_the_same_weights_and_takes_no_numbers_of_others() -> None:
    torch.manual_seed(1)
    first, between = seeded(seed=7), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), between)
    second, other = seeded(seed=7), seeded(seed=8)
    for a, b, c in zip(first.parameters(), second.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)
