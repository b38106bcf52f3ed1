"""A model of the zoo and its training step, started alike in every process that makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from handtorch.kernels.case import Array
from handtorch.zoo.entry import Batch
from handtorch.zoo.registry import MODELS


@dataclass(frozen=True)
class Started:
    """`call(*batch)` trains on a batch and gives the loss, or several."""

    model: nn.Module
    optimizers: list[Optimizer]
    call: Callable[..., Any]

    @property
    def parameters(self) -> int:
        """Weights that are trained, or copied from such."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def buffers(self) -> int:
        return sum(b.numel() for b in self.model.buffers())

    def losses(self, batch: Sequence[Array]) -> list[float]:
        """Trains on the batch, and waits."""
        given = self.call(*tensors(batch))
        found = given.values() if isinstance(given, dict) else (
            given if isinstance(given, (tuple, list)) else (given,))
        return [float(loss) for loss in found]


def tensors(batch: Sequence[Array]) -> Batch:
    return tuple(torch.tensor(array) for array in batch)


def started(name: str, form: str = "", *, small: bool = False, seed: int = 0) -> Started:
    """Weights depend on `seed` alone. Nothing is dropped out: torch and a device draw different
    random numbers, and their losses could not be compared."""
    entry = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = entry.make(form, small)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0
    optimizers = entry.optimizers(model)
    return Started(model, optimizers, entry.step(model, optimizers))
