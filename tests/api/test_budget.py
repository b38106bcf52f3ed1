"""A step within a budget: the same results bit for bit, the bytes kept to, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.api.budget import as_bytes, device_bytes
from handtorch.errors import BadInput, OutOfMemory


class Net(nn.Module):
    """A little of everything that is worth making again: batch-norm, a residual, dropout, cat."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.drop = nn.Dropout(0.3)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + conv(self.drop(torch.relu(norm(x))))
        x = torch.cat([x, torch.relu(x), torch.sigmoid(x)], 1)
        return self.last(self.pool(x).mean((2, 3)))


def batch(rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    return (torch.randn(rows, 3, 16, 16, generator=rng),
            torch.randint(5, (rows,), generator=rng))


def made(device: str, memory: Any = None) -> ht.TrainStep:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return ht.train_step(model, nn.functional.cross_entropy, optimizer, example=batch(),
                         device=device, memory=memory, seed=3)


def after_three(step: ht.TrainStep) -> dict[str, Any]:
    x, y = batch()
    losses = [step(x, y).numpy().copy() for _ in range(3)]
    states = {s.name: step.resident.read_state(s.name) for s in step.program.graph.states}
    return {**states, **{f"loss {i}": loss for i, loss in enumerate(losses)}}


def half(step: ht.TrainStep) -> int:
    plan = step.program.plan
    fixed = device_bytes(plan) - plan.peak_bytes + plan.lasting_bytes
    return fixed + (plan.peak_bytes - plan.lasting_bytes) // 2


def same_as_whole(device: str) -> None:
    whole = made(device)
    memory = half(whole)
    fitted = made(device, memory)
    assert device_bytes(fitted.program.plan) <= memory < device_bytes(whole.program.plan)
    assert any(n.phase == "recompute" for n in fitted.program.graph.nodes)
    ours, theirs = after_three(fitted), after_three(whole)
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


def test_half_the_passing_memory_gives_the_same_bits_on_ref() -> None:
    same_as_whole("ref")


def test_half_the_passing_memory_gives_the_same_bits(opencl_device: Any) -> None:
    same_as_whole(opencl_device.label)
