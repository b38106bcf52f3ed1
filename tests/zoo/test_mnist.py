"""Handwritten digits, where the data are at hand: the device learns what PyTorch learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht

BATCH, EPOCHS, ALLOWED_GAP = 64, 2, 0.005
Arrays = tuple[Any, Any, Any, Any]


@pytest.fixture(scope="module")
def mnist(shared: Path) -> Arrays:
    """Training pictures and labels, then those to be tested with; pictures from 0 to 1."""
    file = shared / "data/mnist/mnist.npz"
    if not file.exists():
        pytest.skip("no MNIST beside the repository")
    with np.load(file, allow_pickle=False) as found:
        pictures = [found[name][:, None].astype("f4") / 255 for name in ("x_train", "x_test")]
        labels = [found[name].astype("i8") for name in ("y_train", "y_test")]
    return pictures[0], labels[0], pictures[1], labels[1]


def start() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2),
                          nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batches(x: Any, y: Any) -> Any:
    """For torch, what `step.epoch(x, y, seed=epoch)` makes."""
    for epoch in range(EPOCHS):
        rows = np.random.default_rng(epoch).permutation(len(x))
        for at in range(0, len(x) - BATCH + 1, BATCH):
            chosen = rows[at:at + BATCH]
            yield torch.from_numpy(x[chosen]), torch.from_numpy(y[chosen])


def accuracy(model: nn.Module, x: Any, y: Any) -> float:
    with torch.no_grad():
        return float((model(torch.from_numpy(x)).argmax(1).numpy() == y).mean())


@pytest.fixture(scope="module")
def torch_reaches(mnist: Arrays) -> float:
    x, y, *test = mnist
    model, optimizer = start()
    for picture, label in batches(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(picture), label).backward()
        optimizer.step()
    return accuracy(model, *test)


@pytest.mark.slow
def test_mnist_to_pytorchs_accuracy(opencl_device: Any, mnist: Arrays, torch_reaches: float
                                    ) -> None:
    x, y, *test = mnist
    model, optimizer = start()
    step = ht.train_step(model, nn.functional.cross_entropy, optimizer,
                         example=(x[:BATCH], y[:BATCH]), device=opencl_device.label)
    for epoch in range(EPOCHS):
        for _ in step.epoch(x, y, seed=epoch):
            pass
    step.sync_to(model)
    step.close()
    ours = accuracy(model, *test)
    print(f"MNIST on {opencl_device.label}: {ours:.2%}, PyTorch {torch_reaches:.2%}")
    assert torch_reaches > 0.97
    assert abs(ours - torch_reaches) <= ALLOWED_GAP
