"""A net of ten classes for pictures of 24 x 24, as a `.ht` file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from handtorch.api.make import inference

NAMES = tuple(f"class {i}" for i in range(10))


def saved_net(folder: Path, device: str, rows: int = 1) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 121, 10))
    model = inference(net.eval(), example=(torch.randn(rows, 3, 24, 24),), device=device)
    path = folder / "net.ht"
    model.save(path)
    model.close()
    return path
