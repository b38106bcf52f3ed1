"""Xception (Chollet 2017): depthwise separable convolutions, 299x299 in its ImageNet form.

The 32x32 form: the first convolution has stride 1, both first ones are padded, and the first
pooling is left out; 4x4 remains."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Separable(nn.Module):
    """3x3 on each map alone, then 1x1 across maps, then batch-norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn(self.pointwise(self.depthwise(x)))
        return out


class Block(nn.Module):
    """Separable layers of the given widths and a short cut; a stride of 2 pools and projects."""

    def __init__(self, inputs: int, widths: tuple[int, ...], stride: int = 1,
                 starts_with_relu: bool = True, project: bool = True) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = inputs
        for width in widths:
            layers += [nn.ReLU(), Separable(before, width)]
            before = width
        layers = layers if starts_with_relu else layers[1:]
        self.body = nn.Sequential(*layers)
        self.pool = nn.MaxPool2d(3, stride, padding=1) if stride != 1 else nn.Identity()
        self.skip = nn.Sequential(nn.Conv2d(inputs, before, 1, stride, bias=False),
                                  nn.BatchNorm2d(before)) if project else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.pool(self.body(x)) + self.skip(x)
        return out


class Xception(nn.Module):
    """Entry, `middle` equal blocks, exit; all widths but the classes divided by `divide`."""

    def __init__(self, form: str = "imagenet", classes: int = 1000, middle: int = 8,
                 divide: int = 1) -> None:
        super().__init__()
        tiny = form == "cifar"
        a, b, c, d, e, f, g, h = (n // divide
                                  for n in (32, 64, 128, 256, 728, 1024, 1536, 2048))
        pad, stride = (1, 1) if tiny else (0, 2)
        self.stem = nn.Sequential(
            nn.Conv2d(3, a, 3, stride, pad, bias=False), nn.BatchNorm2d(a), nn.ReLU(),
            nn.Conv2d(a, b, 3, 1, pad, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.entry = nn.Sequential(
            Block(b, (c, c), stride, starts_with_relu=False), Block(c, (d, d), 2),
            Block(d, (e, e), 2))
        self.middle = nn.Sequential(*(Block(e, (e, e, e), project=False) for _ in range(middle)))
        self.exit = nn.Sequential(Block(e, (e, f), 2), Separable(f, g), nn.ReLU(),
                                  Separable(g, h), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(h, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.exit(self.middle(self.entry(self.stem(x))))
        out: Tensor = self.fc(torch.flatten(self.pool(x), 1))
        return out
