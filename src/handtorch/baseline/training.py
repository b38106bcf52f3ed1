"""PyTorch's own training on the CPU, as users write it: what a captured step is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from handtorch.baseline.fair import Work
from handtorch.kernels.case import Array

LossFn = Callable[[Any, Any], torch.Tensor]


def eager_step(model: torch.nn.Module, loss_fn: LossFn, optimizer: torch.optim.Optimizer,
               x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model: torch.nn.Module, loss_fn: LossFn, optimizer: torch.optim.Optimizer,
          batches: Iterable[tuple[Array, Array]]) -> list[float]:
    """The losses of one pass over `batches`; the model is trained afterwards."""
    return [eager_step(model, loss_fn, optimizer, torch.from_numpy(x), torch.from_numpy(y)).item()
            for x, y in batches]


def step_work(model: torch.nn.Module, loss_fn: LossFn, optimizer: torch.optim.Optimizer,
              x: Array, y: Array) -> Work:
    """The same step again and again, for timing."""
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)

    def work(count: int) -> None:
        for _ in range(count):
            eager_step(model, loss_fn, optimizer, tx, ty)
    return work


def accuracy(model: torch.nn.Module, x: Array, y: Array) -> float:
    """The share of rows whose highest score is the right class."""
    with torch.no_grad():
        scores = model(torch.from_numpy(x))
    return float((scores.argmax(1).numpy() == y).mean())
