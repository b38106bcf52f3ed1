"""The `.ht` files of `make aarch64`, before their first step, and ten batches for each beside it.

Small, since an emulator runs them; between them they hold products, convolution, batch-norm,
pooling, a recurrent layer, dropout (the same numbers on every machine), SGD and Adam."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import handtorch as ht
from handtorch.zoo.digits import BATCH, digits_training, load_digits

STEPS = 10


class Rows(nn.Module):
    """A digit read row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]


def pictures() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 10))  # fmt: skip


def trainings() -> dict[str, tuple[tuple[int, ...], Any]]:
    """Name -> the shape of a digit for it; model, loss and optimizer."""
    torch.manual_seed(0)
    conv, rows, loss = pictures(), Rows(), nn.CrossEntropyLoss()
    return {"perceptron": ((64,), digits_training()),
            "convolution": ((1, 8, 8), (conv, loss, torch.optim.Adam(conv.parameters(), 1e-2))),
            "lstm": ((8, 8), (rows, loss, torch.optim.SGD(rows.parameters(), 0.5)))}


def main(folder: Path) -> None:
    digits = load_digits()
    batches = [batch for _, batch in zip(range(STEPS), digits.batches(0), strict=False)]
    y = np.stack([labels for _, labels in batches])
    for name, (shape, (model, loss, optimizer)) in trainings().items():
        x = np.stack([images for images, _ in batches]).reshape(STEPS, BATCH, *shape)
        step = ht.train_step(model, loss, optimizer, example=(x[0], y[0]), device="ref")
        step.save(folder / f"{name}.ht")
        np.savez(folder / f"{name}.npz", x=x, y=y)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
