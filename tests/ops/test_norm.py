"""Normalisation, forward and gradient, and running statistics over training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from harness import assert_all_like_torch, assert_like_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import handtorch as ht
from handtorch.capture.step import capture_function
from handtorch.errors import CannotCapture
from handtorch.graph.device_spec import GENERIC
from handtorch.pipeline import compile_graph

pytestmark = pytest.mark.spread

Tensor = torch.Tensor
Fn = Callable[..., Tensor]


def numbers(*shape: int, seed: int = 0, mean: float = 0.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + mean


def batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, w, b, training=True, eps=1e-3)


def fixed_batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    middle, spread = b.detach() * 0.5, w.detach().abs() + 0.5
    return F.batch_norm(x, middle, spread, w, b, training=False)


def plain_batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


def group_norm(groups: int, affine: bool = True) -> Fn:
    def fn(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.group_norm(x, groups, *((w, b) if affine else ()))
    return fn


def layer_norm(axes: int, affine: str = "wb") -> Fn:
    def fn(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        shape = x.shape[-axes:]
        return F.layer_norm(x, shape, w.reshape(shape) if "w" in affine else None,
                            b.reshape(shape) if "b" in affine else None, 1e-3)
    return fn


BATCHES = [(2, 3), (17, 16), (40, 5), (2, 3, 1), (3, 1, 7), (2, 5, 20), (1, 2, 3, 3),
           (2, 3, 17, 16), (2, 1, 70, 70)]
CASES: list[tuple[str, Fn, tuple[int, ...], int]] = [
    *((f"batch {s}", batch_norm, s, s[1]) for s in BATCHES),
    ("batch fixed 2-d", fixed_batch_norm, (4, 6), 6),
    ("batch fixed", fixed_batch_norm, (2, 3, 5, 4), 3),
    ("batch plain", plain_batch_norm, (2, 3, 5, 4), 3),
    ("group 1", group_norm(1), (2, 6, 5, 3), 6),
    ("group 3", group_norm(3), (2, 6, 16), 6),
    ("group each", group_norm(4), (3, 4, 1, 7), 4),
    ("group plain", group_norm(2, affine=False), (2, 4, 3), 4),
    ("group of pairs", group_norm(2), (3, 4), 4),
    ("group long", group_norm(2), (1, 4, 71, 97), 4),
    ("layer 1", layer_norm(1), (3, 4, 17), 17),
    ("layer 2", layer_norm(2), (3, 4, 8), 32),
    ("layer all", layer_norm(2), (3, 5), 15),
    ("layer of one", layer_norm(1), (3, 1), 1),
    ("layer plain", layer_norm(1, ""), (5, 33), 33),
    ("layer weight", layer_norm(1, "w"), (70, 16), 16),
    ("layer bias", layer_norm(1, "b"), (2, 5), 5),
    ("layer long", layer_norm(2), (2, 2, 5000), 10000),
    ("instance", lambda x, w, b: F.instance_norm(x, None, None, w, b), (2, 3, 4, 5), 3),
]
IDS = [c[0] for c in CASES]


def check(cases: list[tuple[str, Fn, tuple[int, ...], int]], device: str) -> None:
    # A mean of 3 deviations: a formula that lets squares cancel would show.
    assert_all_like_torch(
        {name: (fn, [numbers(*shape, mean=3), numbers(channels, seed=1), numbers(channels, seed=2)])
         for name, fn, shape, channels in cases}, devices=[device])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_on_ref(case: tuple[str, Fn, tuple[int, ...], int]) -> None:
    check([case], "ref")


ON_A_DEVICE = ("batch (17, 16)", "batch (40, 5)", "batch (3, 1, 7)", "batch (2, 3, 17, 16)",
               "batch (2, 1, 70, 70)", "batch fixed", "batch plain", "group 3", "group long",
               "group of pairs", "layer 1", "layer plain", "layer weight", "layer long",
               "instance")


@pytest.mark.parametrize("part", range(3))
def test_on_a_device(part: int, opencl_device: Any) -> None:
    chosen = [c for c in CASES if c[0] in ON_A_DEVICE]
    assert len(chosen) == len(ON_A_DEVICE)
    check(chosen[part::3], opencl_device.label)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 3))
def test_layer_norm_of_any_shape(shape: list[int], axes: int) -> None:
    axes = min(axes, len(shape))
    size = int(np.prod(shape[-axes:]))
    assert_like_torch(layer_norm(axes), numbers(*shape), numbers(size, seed=1),
                      numbers(size, seed=2))


@settings(max_examples=3, deadline=None)
@given(n=st.integers(2, 9), groups=st.integers(1, 4), inner=st.integers(1, 4),
       size=st.integers(1, 40))
def test_group_norm_of_any_shape(opencl_device: Any, n: int, groups: int, inner: int, size: int
                                 ) -> None:
    channels = groups * inner
    assert_like_torch(group_norm(groups), numbers(n, channels, size), numbers(channels, seed=1),
                      numbers(channels, seed=2), devices=["ref", opencl_device.label])


def test_a_large_mean_does_not_cancel(opencl_device: Any) -> None:
    """Float32 squares of 1000 +- 1 would leave nothing of the variance."""
    assert_like_torch(batch_norm, numbers(8, 2, 30, 30, mean=1000), numbers(2, seed=1),
                      numbers(2, seed=2), devices=["ref", opencl_device.label])


class Net(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.first, self.layers = nn.Linear(6, 12), nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.first(x).reshape(-1, 4, 3)).flatten(1)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.BatchNorm1d(4),
    "half": lambda: nn.BatchNorm1d(4, momentum=0.5, affine=False),
    "untracked": lambda: nn.BatchNorm1d(4, track_running_stats=False),
    "instance": lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
}


def net(layer: str) -> Net:
    torch.manual_seed(3)
    return Net(LAYERS[layer](), nn.ReLU())


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("device", ["ref", "opencl"])
def test_running_statistics_move_as_in_torch(opencl_device: Any, device: str, layer: str) -> None:
    """Parameters and buffers within float32 rounding after three steps, the counter exactly."""
    theirs, ours = net(layer), net(layer)
    x, y = numbers(5, 6), numbers(5, 12, seed=1)
    step = ht.train_step(ours, nn.MSELoss(), torch.optim.SGD(ours.parameters(), lr=0.1),
                         example=(x, y),
                         device=device if device == "ref" else opencl_device.label)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(3):
        step(x, y)
        optimizer.zero_grad()
        nn.functional.mse_loss(theirs(x), y).backward()
        optimizer.step()
    step.sync_to(ours)
    step.close()
    for name, want in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], want, rtol=1e-5, atol=1e-5, msg=name)


def test_batch_norm_and_relu_are_three_launches() -> None:
    captured = capture_function(lambda x, w, b: batch_norm(x, w, b).relu(),
                                [numbers(2, 3, 4, 5), numbers(3), numbers(3)])
    program = compile_graph(captured.graph, GENERIC)
    assert [s.kernel for s in program.steps] == ["norm_stats", "norm_fold", "pointwise"]


def test_a_cumulative_average_is_refused() -> None:
    model = Net(nn.BatchNorm1d(4, momentum=None))
    with pytest.raises(CannotCapture) as caught:
        ht.train_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1),
                      example=(numbers(5, 6), numbers(5, 12)), device="ref")
    first, where, fix = str(caught.value).splitlines()
    assert first == ("batch-norm with momentum=None: the weight of a batch would be a number that "
                     "changes with every step")
    assert "test_norm.py" in where and "self.layers" in where
    assert fix == "  try: momentum=0.1"
