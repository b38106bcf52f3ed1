"""The planned peak of every zoo model, full size, lies below what PyTorch's own step takes."""

from __future__ import annotations

import pytest

from benchmarks import peak
from handtorch.runtime.choose import open_executor
from handtorch.zoo.registry import MODELS

BATCH = 16


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_below_pytorchs_peak(name: str) -> None:
    found = peak.compare(name, BATCH, open_executor("null").spec)
    print(found.row())
    assert found.planned < found.torch, f"{peak.HEAD}\n{found.row()}"
    assert found.planned <= 1.05 * found.floor, f"{peak.HEAD}\n{found.row()}"


def test_a_step_of_pytorch_takes_at_least_its_gradients() -> None:
    model = MODELS["Model4"].make()
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    assert peak.torch_bytes("Model4", BATCH) > gradients
