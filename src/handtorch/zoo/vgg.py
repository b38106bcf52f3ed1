"""VGG16 and VGG19 (Simonyan and Zisserman 2014), with torchvision's names, without batch-norm.

The 32x32 form keeps all convolutions and poolings (1x1 remains) and replaces the 7x7x512 - 4096 -
4096 classifier by 512 - 512 - 512."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handtorch.zoo.start import he_start

STAGES = {"VGG16": (2, 2, 3, 3, 3), "VGG19": (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """`stages` convolutions of 3x3 before each of five poolings; widths divided by `divide`."""

    def __init__(self, stages: tuple[int, ...], form: str = "imagenet", classes: int = 1000,
                 dropout: float = 0.5, divide: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for count, wide in zip(stages, (64, 128, 256, 512, 512), strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(inputs, wide // divide, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = wide // divide
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        side, hidden = (1, inputs) if form == "cifar" else (7, 4096 // divide)
        self.avgpool = nn.AdaptiveAvgPool2d(side)
        self.classifier = nn.Sequential(
            nn.Linear(inputs * side * side, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(hidden, classes))
        he_start(self)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return out
