"""ResNet50, 101, 152 (He et al. 2015), with torchvision's names and its stride in the 3x3 layer.

The 32x32 form starts with a 3x3 convolution of stride 1 and no pooling, so that the last stage
still sees 4x4; everything else is the 224x224 net."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCKS = {"ResNet50": (3, 4, 6, 3), "ResNet101": (3, 4, 23, 3), "ResNet152": (3, 8, 36, 3)}


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 to four times `width`, added to the input (projected where shapes differ)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        short = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu(y + short)
        return out


class ResNet(nn.Module):
    """`blocks` bottlenecks in each of four stages; `width` is 64 in the paper."""

    def __init__(self, blocks: tuple[int, int, int, int], form: str = "imagenet",
                 classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        tiny = form == "cifar"
        self.conv1 = nn.Conv2d(3, width, 3 if tiny else 7, 1 if tiny else 2,
                               padding=1 if tiny else 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if tiny else nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _stage(width, width, blocks[0], 1)
        self.layer2 = _stage(4 * width, 2 * width, blocks[1], 2)
        self.layer3 = _stage(8 * width, 4 * width, blocks[2], 2)
        self.layer4 = _stage(16 * width, 8 * width, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Bottleneck):
                # Blocks start as the identity (Goyal et al. 2017). Otherwise rounding is amplified
                # from block to block, and two float32 runs of torch itself soon differ by 100 %.
                nn.init.zeros_(module.bn3.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        out: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return out


def _stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    rest = [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)
