"""Handwritten digits, 8x8, from scikit-learn: the smallest real thing to train on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from handtorch.errors import BadInput

Array = NDArray[Any]
BATCH = 32


@dataclass(frozen=True)
class Digits:
    """1,797 pictures as rows of 64 numbers from 0 to 1; every fifth is kept for testing."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array

    def batches(self, epoch: int, size: int = BATCH) -> Iterator[tuple[Array, Array]]:
        """Whole batches in an order that depends on `epoch` only: that of
        `TrainStep.epoch(train_x, train_y, seed=epoch)`."""
        order = np.random.default_rng(epoch).permutation(len(self.train_x))
        for at in range(0, len(order) - size + 1, size):
            rows = order[at:at + size]
            yield self.train_x[rows], self.train_y[rows]


def load_digits() -> Digits:
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as e:
        raise BadInput("the digits data set", why="scikit-learn is not installed",
                       fix="pip install 'handtorch[data]'") from e
    data = load()
    x, y = (data.data / 16).astype("f4"), data.target.astype("i8")
    test = np.arange(len(x)) % 5 == 0
    return Digits(x[~test], y[~test], x[test], y[test])


def digits_model(seed: int = 0) -> torch.nn.Sequential:
    """A two-layer perceptron, 64-64-10, the same on every call with the same seed."""
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        for p in model.parameters():
            bound = 1 / 8
            p.copy_(torch.rand(p.shape, generator=generator) * 2 * bound - bound)
    return model


def digits_training(seed: int = 0) -> tuple[torch.nn.Module, torch.nn.Module, torch.optim.SGD]:
    """Model, loss and optimizer, ready to train."""
    model = digits_model(seed)
    return (model, torch.nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
