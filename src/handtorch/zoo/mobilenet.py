"""MobileNetV2 (Sandler et al. 2018), with torchvision's names.

The 32x32 form has stride 1 in the first convolution and in the second stage: 4x4 remains."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# expansion, channels, blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))


def _conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
             ) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """1x1 wider, 3x3 on each map alone, 1x1 narrower without activation; added where it fits."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = [_conv_bn(inputs, wide, 1)] if expansion != 1 else []
        layers += [_conv_bn(wide, wide, 3, stride, groups=wide),
                   nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    """Width 1.0; all channels but the classes are divided by `divide` (8 divides them all)."""

    def __init__(self, form: str = "imagenet", classes: int = 1000, dropout: float = 0.2,
                 divide: int = 1) -> None:
        super().__init__()
        tiny = form == "cifar"
        width, last = 32 // divide, 1280 // divide
        layers: list[nn.Module] = [_conv_bn(3, width, 3, 1 if tiny else 2)]
        for number, (expansion, channels, blocks, stride) in enumerate(STAGES):
            for block in range(blocks):
                step = stride if block == 0 and not (tiny and number == 1) else 1
                layers.append(InvertedResidual(width, channels // divide, step, expansion))
                width = channels // divide
        layers.append(_conv_bn(width, last, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(torch.flatten(self.pool(self.features(x)), 1))
        return out
