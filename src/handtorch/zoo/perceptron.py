"""Model1 to Model4 of the paper on training with phone GPUs: plain perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

WIDTHS = {
    "Model1": (16, 16),
    "Model2": (16, 16, 16, 16),
    "Model3": (256, 256),
    "Model4": (784, 256, 128, 16),          # MNIST pictures go in
}


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers between neighbouring widths; ReLU after each but the last."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
