"""SqueezeNet 1.0 and 1.1 (Iandola et al. 2016), with torchvision's names.

The 32x32 form replaces the first convolution by a 3x3 one of stride 1; the three poolings stay,
so the last maps are 4x4."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handtorch.zoo.start import he_start


class Fire(nn.Module):
    """1x1 to `squeeze` maps, then 1x1 and 3x3 side by side to `expand` maps each."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat([self.expand1x1_activation(self.expand1x1(x)),
                          self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """`version` "1.0" or "1.1"; all widths but the classes are divided by `divide`."""

    def __init__(self, version: str = "1.1", form: str = "imagenet", classes: int = 1000,
                 dropout: float = 0.5, divide: int = 1) -> None:
        super().__init__()
        old = version == "1.0"
        first = (96 if old else 64) // divide
        fires = [Fire(inputs // divide, s // divide, e // divide) for inputs, s, e in (
            (96 if old else 64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128),
            (256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256))]
        if form == "cifar":
            stem = nn.Conv2d(3, first, 3, padding=1)
        else:
            stem = nn.Conv2d(3, first, 7 if old else 3, 2)
        pools = (3, 7) if old else (2, 4)               # fires after which maps shrink
        layers: list[nn.Module] = [stem, nn.ReLU(inplace=True), _pool()]
        for number, fire in enumerate(fires, 1):
            layers += [fire, _pool()] if number in pools else [fire]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(512 // divide, classes, 1), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1))
        he_start(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, 2, ceil_mode=True)
