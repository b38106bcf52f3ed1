"""Network in Network (Lin et al. 2013): convolutions followed by 1x1 ones, no linear layer.

The 32x32 form is the paper's CIFAR-10 net; the ImageNet form is the authors' Caffe model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handtorch.zoo.start import he_start


class NIN(nn.Module):
    """The classes' scores are the means of the last maps; widths divided by `divide`."""

    def __init__(self, form: str = "imagenet", classes: int = 1000, dropout: float = 0.5,
                 divide: int = 1) -> None:
        super().__init__()
        n = divide
        if form == "cifar":
            layers = [
                *_mlpconv(3, (192 // n, 160 // n, 96 // n), 5, 1, 2),
                nn.MaxPool2d(3, 2, padding=1), nn.Dropout(dropout),
                *_mlpconv(96 // n, (192 // n,) * 3, 5, 1, 2),
                nn.AvgPool2d(3, 2, padding=1), nn.Dropout(dropout),
                *_mlpconv(192 // n, (192 // n, 192 // n, classes), 3, 1, 1)]
        else:
            layers = [
                *_mlpconv(3, (96 // n,) * 3, 11, 4, 0), nn.MaxPool2d(3, 2),
                *_mlpconv(96 // n, (256 // n,) * 3, 5, 1, 2), nn.MaxPool2d(3, 2),
                *_mlpconv(256 // n, (384 // n,) * 3, 3, 1, 1), nn.MaxPool2d(3, 2),
                nn.Dropout(dropout),
                *_mlpconv(384 // n, (1024 // n, 1024 // n, classes), 3, 1, 1)]
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        he_start(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.pool(self.features(x)), 1)


def _mlpconv(inputs: int, widths: tuple[int, int, int], kernel: int, stride: int, padding: int
             ) -> list[nn.Module]:
    a, b, c = widths
    return [nn.Conv2d(inputs, a, kernel, stride, padding), nn.ReLU(inplace=True),
            nn.Conv2d(a, b, 1), nn.ReLU(inplace=True),
            nn.Conv2d(b, c, 1), nn.ReLU(inplace=True)]
