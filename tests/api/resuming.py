"""A step with all that lasts: Adam, dropout, batch-norm, a scheduler. Run as a program it resumes a
checkpoint in a process of its own and prints the losses that follow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import handtorch as ht

_numbers = np.random.default_rng(5)
X = _numbers.normal(size=(10, 8, 3, 6, 6)).astype("f4")
Y = _numbers.integers(0, 5, (10, 8))


def model() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                         nn.Dropout(0.3), nn.Linear(64, 5))


class Run:
    def __init__(self, device: str, *, seed: int = 1, net: nn.Module | None = None,
                 rows: int = 8) -> None:
        torch.manual_seed(seed)
        self.model = net or model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.step = ht.train_step(self.model, nn.CrossEntropyLoss(), self.optimizer,
                                  example=(X[0][:rows], Y[0][:rows]), device=device, seed=seed)

    def train(self, first: int, last: int) -> list[float]:
        losses = []
        for i in range(first, last):
            losses.append(self.step(X[i], Y[i]))
            self.schedule.step()
        return [float(loss) for loss in losses]

    def save(self, path: Path) -> None:
        self.step.save_checkpoint(path, {"schedule": json.dumps(self.schedule.state_dict())})

    def load(self, path: Path) -> Run:
        self.schedule.load_state_dict(json.loads(self.step.load_checkpoint(path)["schedule"]))
        return self


def resume(path: str, device: str) -> Any:
    run = Run(device, seed=99).load(Path(path))
    return [run.step.steps, *(loss.hex() for loss in run.train(5, 10))]


if __name__ == "__main__":
    print(json.dumps(resume(*sys.argv[1:])))
