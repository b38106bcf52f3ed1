"""Activations, forward and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import assert_like_torch

pytestmark = pytest.mark.spread

ACTIVATIONS: dict[str, Any] = {
    "relu": F.relu, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": F.elu, "selu": F.selu,
    "celu": F.celu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu, "mish": F.mish, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "logsigmoid": F.logsigmoid, "softplus": F.softplus, "softsign": F.softsign,
    "relu6": F.relu6, "hardtanh": F.hardtanh, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, -1.0), "clamp": lambda x: x.clamp(-0.5, 1.0),
    "clamp_min": lambda x: x.clamp_min(0.2), "square": lambda x: x ** 2, "cube": lambda x: x ** 3,
    "sqrt": lambda x: (x.abs() + 0.5).sqrt(), "rsqrt": lambda x: (x.abs() + 0.5).rsqrt(),
    "log": lambda x: (x.abs() + 0.5).log(), "expm1": lambda x: torch.expm1(x * 0.3),
    "erf": torch.erf, "minimum": lambda x: torch.minimum(x, x * x - 0.3),
    "masked": lambda x: x.masked_fill(x > 0.3, -2.0), "rsub": lambda x: 1.5 - x,
    "abs": torch.abs, "floor": lambda x: torch.floor(x) + x, "neg": torch.neg,
}
X = torch.linspace(-4, 4, 57) + 0.013          # away from the kinks of the hard variants


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_on_ref(name: str) -> None:
    assert_like_torch(ACTIVATIONS[name], X)


def test_all_of_them_on_a_device(opencl_device: Any) -> None:
    assert_like_torch(lambda x: tuple(f(x) for f in ACTIVATIONS.values()), X,
                      devices=[opencl_device.label])


def test_prelu_learns_its_slope(opencl_device: Any) -> None:
    assert_like_torch(F.prelu, X[:56].reshape(2, 4, 7), torch.rand(4),
                      devices=["ref", opencl_device.label])
