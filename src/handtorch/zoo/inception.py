"""InceptionV1, also called GoogLeNet (Szegedy et al. 2014), without auxiliary heads.

As torchvision has it, with its names: batch-norm instead of local response norm, and 3x3 where the
paper has 5x5 (the third branch). The 32x32 form has a 3x3 first convolution of stride 1 and no
first pooling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# inputs, 1x1, before 3x3, 3x3, before "5x5", "5x5", behind the pooling
BLOCKS = {
    "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


class BasicConv2d(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.bn(self.conv(x)))
        return out


class Inception(nn.Module):
    """Four branches on the same input, their maps side by side."""

    def __init__(self, inputs: int, one: int, before3: int, three: int, before5: int, five: int,
                 pooled: int) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(inputs, one, 1)
        self.branch2 = nn.Sequential(BasicConv2d(inputs, before3, 1),
                                     BasicConv2d(before3, three, 3))
        self.branch3 = nn.Sequential(BasicConv2d(inputs, before5, 1),
                                     BasicConv2d(before5, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, padding=1, ceil_mode=True),
                                     BasicConv2d(inputs, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionV1(nn.Module):
    """All widths but the classes are divided by `divide` (a power of two up to 8)."""

    def __init__(self, form: str = "imagenet", classes: int = 1000, dropout: float = 0.2,
                 divide: int = 1) -> None:
        super().__init__()
        tiny, n = form == "cifar", divide
        self.conv1 = BasicConv2d(3, 64 // n, 3 if tiny else 7, 1 if tiny else 2)
        self.maxpool1 = nn.Identity() if tiny else nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = BasicConv2d(64 // n, 64 // n, 1)
        self.conv3 = BasicConv2d(64 // n, 192 // n, 3)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        for name, widths in BLOCKS.items():
            self.add_module(f"inception{name}", Inception(*(w // n for w in widths)))
        self.maxpool3 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.maxpool4 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(1024 // n, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool1(self.conv1(x))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        for name in BLOCKS:
            x = self.get_submodule(f"inception{name}")(x)
            if name in ("3b", "4e"):
                x = (self.maxpool3 if name == "3b" else self.maxpool4)(x)
        out: Tensor = self.fc(self.dropout(torch.flatten(self.avgpool(x), 1)))
        return out
