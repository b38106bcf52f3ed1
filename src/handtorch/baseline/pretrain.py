"""A model trained in torch for a while before it moves to a device: the server of the paper."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from handtorch.baseline.training import accuracy, eager_step
from handtorch.kernels.case import Array

CHECKED = 256                           # samples on which it is seen whether enough is learnt


def optimizer_of(model: nn.Module, rate: float) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


loss_fn: Callable[[Any, Any], torch.Tensor] = nn.functional.cross_entropy


@dataclass(frozen=True)
class Schooling:
    """How long it learns: until so much of what it is shown is right, or the time is over."""

    wanted: float
    limit_s: float
    rate: float
    batch: int = 64
    check_every: int = 10               # batches


def pretrain(model: nn.Module, x: Array, y: Array, how: Schooling,
             progress: Callable[[str], None]) -> str:
    """The model is trained afterwards; gives what that took, in words."""
    optimizer, rng = optimizer_of(model, how.rate), np.random.default_rng(0)
    begin, batches, right = time.monotonic(), 0, 0.0
    said = begin
    while right < how.wanted and time.monotonic() - begin < how.limit_s:
        rows = rng.integers(len(x), size=how.batch)
        model.train()
        eager_step(model, loss_fn, optimizer, torch.from_numpy(x[rows]), torch.from_numpy(y[rows]))
        batches += 1
        if batches % how.check_every == 0:
            model.eval()
            some = rng.integers(len(x), size=CHECKED)
            right = accuracy(model, x[some], y[some])
        if time.monotonic() - said > 10:
            said = time.monotonic()
            progress(f"{batches} batches in torch, {right:.0%} right, "
                     f"{max(0.0, how.limit_s - (said - begin)):.0f} s left at most")
    model.eval()
    return (f"{batches} batches of {how.batch} in {time.monotonic() - begin:.0f} s, until "
            f"{right:.0%} of {CHECKED} images were right (wanted {how.wanted:.0%}, at most "
            f"{how.limit_s:.0f} s)")


def weights_of(model: nn.Module) -> dict[str, Array]:
    return {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}


def set_weights(model: nn.Module, weights: dict[str, Array]) -> None:
    model.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in weights.items()})
