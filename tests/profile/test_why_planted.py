"""Eight causes planted in real steps on every device: each must be named.

The other load of the machine is part of one case only: it is not ours to plant in the others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.capture.step import capture_inference, capture_train_step
from handtorch.profile.why import Why, told, why
from handtorch.record import Run
from handtorch.runtime.choose import open_executor
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies.backprop_one_op import lower_ops, unfused
from tests.profile.by_hand import ByHand

pytestmark = pytest.mark.timed
STEPS = 8


@pytest.fixture(scope="module")
def on(opencl_device: FoundDevice) -> OpenCLContext:
    found = open_executor(opencl_device.label)
    assert isinstance(found, OpenCLContext)
    return found


def perceptron(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 16))


def by_hand(on: OpenCLContext, model: nn.Module, batch: tuple[torch.Tensor, ...], *,
            naive: bool = False, trains: bool = True, **plant: bool) -> Run:
    """The model's step with nothing fused, run with what is planted."""
    arrays = tuple(t.numpy() for t in batch)
    if trains:
        rate = torch.optim.SGD(model.parameters(), lr=0.01)
        found = capture_train_step(model, nn.functional.cross_entropy, rate, arrays)
    else:
        found = capture_inference(model, arrays)
    graph = unfused(found.graph)
    steps = ByHand(on, graph, lower_ops(graph, on.spec, naive=naive), **plant)
    for i in range(STEPS + 2):
        steps.step(record=i >= 2)
    return steps.run("planted")


def resident(step: Any, batches: Iterator[tuple[Any, ...]], *, alone: bool = True) -> Run:
    """Steps of ours while profiled, each waited for; with the device's peaks."""
    with ht.profile(step, name="planted") as profile:
        for batch in batches:
            float(np.sum(np.asarray(step(*batch))))
    profile.peaks()
    run: Run = profile.run
    return replace(run, samples=()) if alone else run


def classified(width: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, width), torch.randint(16, (size,))


def named(found: Why, cause: str) -> None:
    assert [c.cause for c in found.top][:1] == [cause], told(found)


def test_a_copy_per_op(on: OpenCLContext) -> None:
    run = by_hand(on, perceptron(512), classified(512, 256), copies=True)
    named(why(run), "copies")


def test_a_wait_per_op(on: OpenCLContext) -> None:
    run = by_hand(on, perceptron(64), classified(64, 256), waits=True)
    named(why(run), "waits")


class Gates(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(x * 2) + x).abs().sqrt() * 0.5


def test_an_unfused_chain(on: OpenCLContext) -> None:
    run = by_hand(on, Gates(), (torch.randn(64, 1 << 16),), trains=False)
    named(why(run), "unfused")


def test_a_naive_product(on: OpenCLContext) -> None:
    run = by_hand(on, perceptron(256), classified(256, 128), naive=True)
    found = why(run)
    named(found, "slow kernel")
    assert "gemm_naive" in found.top[0].what


def test_a_tiny_batch(opencl_device: FoundDevice) -> None:
    model = perceptron(16)
    batch = tuple(t.numpy() for t in classified(16, 1))
    step = ht.train_step(model, nn.functional.cross_entropy,
                         torch.optim.SGD(model.parameters(), lr=0.01), example=batch,
                         device=opencl_device.label)
    for _ in range(3):
        float(step(*batch))
    named(why(resident(step, iter([batch] * 30))), "tiny launches")


def test_a_slow_input_pipeline(opencl_device: FoundDevice) -> None:
    model = perceptron(256)
    x, y = (t.numpy() for t in classified(256, 256))
    step = ht.train_step(model, nn.functional.cross_entropy,
                         torch.optim.SGD(model.parameters(), lr=0.01), example=(x, y),
                         device=opencl_device.label)

    def batches() -> Iterator[tuple[Any, ...]]:
        for _ in range(STEPS):
            time.sleep(0.03)
            yield x, y
    for _ in range(3):
        float(step(x, y))
    named(why(resident(step, batches())), "input")


class Wide(nn.Module):
    """A product that is soon done, and a layer that only moves a lot."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 64)
        self.table = nn.Parameter(torch.ones(64, 1 << 17))
        self.act = nn.Hardtanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = self.act(self.table + x[0, 0])      # what weights alone decide is computed once
        return torch.cat([moved.sum(dim=1), self.fc(x).sum(dim=1)])


def test_a_memory_bound_layer(opencl_device: FoundDevice) -> None:
    x = np.ones((64, 64), "f4")
    infer = ht.inference(Wide(), example=(x,), device=opencl_device.label)
    infer(x)
    found = why(resident(infer, iter([(x,)] * STEPS)))
    named(found, "memory")
    assert "bound by memory" in found.top[0].what


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """So many other programs that compute."""
    others = [subprocess.Popen([sys.executable, "-S", "-E", "-c", "while True: pass"])
              for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_busy_machine(opencl_device: FoundDevice) -> None:
    model = perceptron(512)
    batch = tuple(t.numpy() for t in classified(512, 256))
    step = ht.train_step(model, nn.functional.cross_entropy,
                         torch.optim.SGD(model.parameters(), lr=0.01), example=batch,
                         device=opencl_device.label)
    for _ in range(3):
        float(step(*batch))
    with spinning(os.cpu_count() or 2):
        run = resident(step, iter([batch] * 60), alone=False)
    named(why(run), "busy machine")
