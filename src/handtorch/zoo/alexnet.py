"""AlexNet (Krizhevsky 2012) as torchvision has it: the one-column form of 2014, no local response
norm, no groups.

The 32x32 form: the first convolution is 3x3 with stride 2, poolings are 2x2, and 2x2x256 go into
the classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handtorch.zoo.start import he_start


class AlexNet(nn.Module):
    """Five convolutions and three linear layers; all widths divided by `divide`."""

    def __init__(self, form: str = "imagenet", classes: int = 1000, dropout: float = 0.5,
                 divide: int = 1) -> None:
        super().__init__()
        tiny = form == "cifar"
        a, b, c, d, hidden = (n // divide for n in (64, 192, 384, 256, 4096))
        side, window = (2, 2) if tiny else (6, 3)
        stem = nn.Conv2d(3, a, 3, 2, padding=1) if tiny else nn.Conv2d(3, a, 11, 4, padding=2)
        self.features = nn.Sequential(
            stem, nn.ReLU(inplace=True), nn.MaxPool2d(window, 2),
            nn.Conv2d(a, b, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(window, 2),
            nn.Conv2d(b, c, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(c, d, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(d, d, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(window, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(side)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(d * side * side, hidden), nn.ReLU(inplace=True),
            nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(inplace=True),
            nn.Linear(hidden, classes))
        he_start(self)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
        return out
