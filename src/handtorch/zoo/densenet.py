"""DenseNet for 32x32 pictures (Huang et al. 2017), k = 12: the first form, without bottlenecks
and without compression. Layer names follow torchvision's (larger) DenseNets."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

DEPTHS = {"DenseNet40_12": 40, "DenseNet100_12": 100}


class DenseLayer(nn.Module):
    """Batch-norm, ReLU, 3x3 convolution; its `growth` new maps are put behind the input's."""

    def __init__(self, inputs: int, growth: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.dropout(self.conv1(self.relu1(self.norm1(x))))], 1)


class DenseNet(nn.Module):
    """Three blocks of (depth - 4) / 3 layers; 1x1 convolution and 2x2 mean between them.

    `dropout` is 0.2 in the paper where the pictures are not augmented, else 0."""

    def __init__(self, depth: int, growth: int = 12, classes: int = 10, dropout: float = 0.0,
                 first: int = 16) -> None:
        super().__init__()
        layers = (depth - 4) // 3
        width = first
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        parts["conv0"] = nn.Conv2d(3, width, 3, padding=1, bias=False)
        for block in (1, 2, 3):
            parts[f"denseblock{block}"] = nn.Sequential(OrderedDict(
                (f"denselayer{i + 1}", DenseLayer(width + i * growth, growth, dropout))
                for i in range(layers)))
            width += layers * growth
            if block < 3:
                parts[f"transition{block}"] = _transition(width, dropout)
        parts["norm4"] = nn.BatchNorm2d(width)
        parts["relu4"] = nn.ReLU(inplace=True)
        self.features = nn.Sequential(parts)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(torch.flatten(self.pool(self.features(x)), 1))
        return out


def _transition(width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(OrderedDict(
        norm=nn.BatchNorm2d(width), relu=nn.ReLU(inplace=True),
        conv=nn.Conv2d(width, width, 1, bias=False), dropout=nn.Dropout(dropout),
        pool=nn.AvgPool2d(2)))
