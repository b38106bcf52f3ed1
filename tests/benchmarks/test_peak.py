"""The planned peak of zoo models, full size, lies below what PyTorch's own step takes.

Of some here; `python benchmarks/peak.py` does it for all. That no peak grows is held for every
model by tests/zoo/test_budgets.py."""

from __future__ import annotations

import pytest

from benchmarks import peak
from handtorch.runtime.choose import open_executor
from handtorch.zoo.registry import MODELS

BATCH = 16
NAMES = ("AlexNet", "DCGAN", "DenseNet40_12", "HarLSTM", "MobileNetV2", "ResNet50", "VGG16")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_below_pytorchs_peak(name: str) -> None:
    found = peak.compare(name, BATCH, open_executor("null").spec)
    print(found.row())
    assert found.planned < found.torch, f"{peak.HEAD}\n{found.row()}"
    assert found.planned <= 1.05 * found.floor, f"{peak.HEAD}\n{found.row()}"


def test_a_step_of_pytorch_takes_at_least_its_gradients() -> None:
    model = MODELS["Model4"].make()
    gradients = sum(p.numel() * p.element_size() for p in model.parameters())
    assert peak.torch_bytes("Model4", BATCH) > gradients
