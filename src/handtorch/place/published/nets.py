"""The networks that published rows are of, in the forms their papers or files give.

The ncnn forms were read off the layer lists in its benchmark folder; others are the papers'."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from handtorch.place.published.layers import Layer, Net


def _alexnet() -> Net:
    """Caffe's: two groups, local response norm, 227 x 227."""
    net = Net(227, normed=False).conv(96, 11, 4, 0).pointwise(operations=10).pool(3, 2)
    net.conv(256, 5, groups=2).pointwise(operations=10).pool(3, 2).conv(384, 3)
    net.conv(384, 3, groups=2).conv(256, 3, groups=2).pool(3, 2)
    return net.linear(4096).linear(4096).linear(1000)


def _alexnet_one_column() -> Net:
    net = Net(224, normed=False).conv(64, 11, 4, 2).pool(3, 2, up=False).conv(192, 5)
    net.pool(3, 2, up=False).conv(384, 3).conv(256, 3).conv(256, 3).pool(3, 2, up=False)
    return net.linear(4096).linear(4096).linear(1000)


def _nin() -> Net:
    """The authors' Caffe model, 224 x 224."""
    net = Net(224, normed=False).conv(96, 11, 4, 0).conv(96, 1).conv(96, 1).pool(3, 2)
    net.conv(256, 5).conv(256, 1).conv(256, 1).pool(3, 2)
    net.conv(384, 3).conv(384, 1).conv(384, 1).pool(3, 2)
    return net.conv(1024, 3).conv(1024, 1).conv(1000, 1).mean()


def _squeezenet(old: bool, side: int) -> Net:
    net = Net(side, normed=False)
    if side < 64:
        net.conv(96 if old else 64, 3)
    else:
        net.conv(96 if old else 64, 7 if old else 3, 2, 0)
    net.pool(3, 2)
    widths = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    for number, (squeeze, expand) in enumerate(widths, 1):
        net.conv(squeeze, 1)
        net.conv(expand, 1).branch(squeeze).conv(expand, 3).branch(2 * expand).pointwise()
        if number in ((3, 7) if old else (2, 4)):
            net.pool(3, 2)
    return net.conv(10 if side < 64 else 1000, 1).mean()


def _mobilenet(width: float, side: int) -> Net:
    net = Net(side).conv(int(32 * width), 3, 2)
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
                             *((512, 1),) * 5, (1024, 2), (1024, 1)):
        net.depthwise(3, stride).conv(int(channels * width), 1)
    return net.mean().linear(1000)


def _inverted(net: Net, channels: int, wide: int, kernel: int, stride: int, *, gate: int = 0,
              swish: bool = False) -> None:
    """1x1 wider, a convolution of each map, 1x1 narrower; added where the shapes agree."""
    before, at = net.channels, net.side
    if wide != before:
        net.conv(wide, 1)
        if swish:
            net.pointwise(operations=3)
    net.depthwise(kernel, stride)
    if gate:
        net.gate(gate)
    if swish:
        net.pointwise(operations=3)
    net.conv(channels, 1)
    if stride == 1 and before == channels and at == net.side:
        net.pointwise(2)


def _stages(net: Net, stages: tuple[tuple[int, int, int, int, int], ...], gated: int = 0,
            swish: bool = False) -> Net:
    """(expansion, channels, blocks, stride, kernel); gates of a `gated`-th of the block's input."""
    for expansion, channels, blocks, stride, kernel in stages:
        for block in range(blocks):
            _inverted(net, channels, expansion * net.channels, kernel, 1 if block else stride,
                      gate=net.channels // gated if gated else 0, swish=swish)
    return net


def _mobilenet_v2() -> Net:
    net = _stages(Net(224).conv(32, 3, 2), (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3),
        (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)))
    return net.conv(1280, 1).mean().linear(1000)


def _mnasnet() -> Net:
    """B1, without gates."""
    net = _stages(Net(224).conv(32, 3, 2), (
        (1, 16, 1, 1, 3), (3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3),
        (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)))
    return net.conv(1280, 1).mean().linear(1000)


def _efficientnet() -> Net:
    net = _stages(Net(224).conv(32, 3, 2).pointwise(operations=3), (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)), gated=4, swish=True)
    return net.conv(1280, 1).pointwise(operations=3).mean().linear(1000)


def _proxylessnas() -> Net:
    """As in ncnn's list: (channels, wide, kernel, stride)."""
    net = Net(224).conv(32, 3, 2)
    for channels, wide, kernel, stride in (
            (32, 32, 3, 1), (32, 48, 5, 2), (32, 96, 3, 1), (40, 96, 7, 2), (40, 120, 3, 1),
            (40, 120, 5, 1), (40, 120, 5, 1), (80, 240, 7, 2), *((80, 240, 5, 1),) * 3,
            (96, 480, 5, 1), *((96, 288, 5, 1),) * 3, (192, 576, 7, 2), (192, 1152, 7, 1),
            (192, 576, 7, 1), (192, 576, 7, 1), (320, 1152, 7, 1)):
        _inverted(net, channels, wide, kernel, stride)
    return net.conv(1280, 1).mean().linear(1000)


def _mobilenet_v3(large: bool) -> Net:
    """(channels, wide, kernel, stride, gated, hard swish)."""
    big = ((16, 16, 3, 1, 0, 0), (24, 64, 3, 2, 0, 0), (24, 72, 3, 1, 0, 0), (40, 72, 5, 2, 1, 0),
           (40, 120, 5, 1, 1, 0), (40, 120, 5, 1, 1, 0), (80, 240, 3, 2, 0, 1),
           (80, 200, 3, 1, 0, 1), (80, 184, 3, 1, 0, 1), (80, 184, 3, 1, 0, 1),
           (112, 480, 3, 1, 1, 1), (112, 672, 3, 1, 1, 1), (160, 672, 5, 2, 1, 1),
           (160, 960, 5, 1, 1, 1), (160, 960, 5, 1, 1, 1))
    small = ((16, 16, 3, 2, 1, 0), (24, 72, 3, 2, 0, 0), (24, 88, 3, 1, 0, 0),
             (40, 96, 5, 2, 1, 1), (40, 240, 5, 1, 1, 1), (40, 240, 5, 1, 1, 1),
             (48, 120, 5, 1, 1, 1), (48, 144, 5, 1, 1, 1), (96, 288, 5, 2, 1, 1),
             (96, 576, 5, 1, 1, 1), (96, 576, 5, 1, 1, 1))
    net = Net(224).conv(16, 3, 2).pointwise(operations=3)
    for channels, wide, kernel, stride, gated, swish in big if large else small:
        _inverted(net, channels, wide, kernel, stride, gate=wide // 4 if gated else 0,
                  swish=bool(swish))
    net.conv(960 if large else 576, 1).pointwise(operations=3).mean()
    return net.linear(1280 if large else 1024).pointwise(operations=3).linear(1000)


def _shufflenet() -> Net:
    """Three groups, as in ncnn's list."""
    net = Net(224).conv(24, 3, 2).pool(3, 2)
    for channels, blocks in ((240, 4), (480, 8), (960, 4)):
        for block in range(blocks):
            before, middle = net.channels, channels // 4
            new = channels if block else channels - before
            middle = 54 if before == 24 else middle
            if not block:
                net.pool(3, 2).branch(before, 2 * net.side)
            net.conv(middle, 1, groups=1 if before == 24 else 3)
            if before != 24:
                net.pointwise()             # the shuffle
            net.depthwise(3, 1 if block else 2).conv(new, 1, groups=3)
            net.branch(channels).pointwise(2 if block else 1).pointwise()
    return net.mean().linear(1000)


def _shufflenet_v2() -> Net:
    net = Net(224).conv(24, 3, 2).pool(3, 2)
    for channels, blocks in ((116, 4), (232, 8), (464, 4)):
        half = channels // 2
        for block in range(blocks):
            before, side = net.channels, net.side
            if not block:
                net.depthwise(3, 2).conv(half, 1).branch(before, side)
                net.conv(half, 1).depthwise(3, 2).conv(half, 1)
            else:
                net.pointwise().branch(half)            # cut in two
                net.conv(half, 1).depthwise(3).conv(half, 1)
            net.branch(channels).pointwise().pointwise()        # joined, shuffled
    return net.conv(1024, 1).mean().linear(1000)


def _regnety() -> Net:
    """400MF: groups of 8 channels, gates of a quarter of the block's input."""
    net = Net(224).conv(32, 3, 2)
    for channels, blocks in ((48, 1), (104, 3), (208, 6), (440, 6)):
        for block in range(blocks):
            before, side, stride = net.channels, net.side, 1 if block else 2
            if not block:
                net.conv(channels, 1, 2, 0).branch(before, side)
            net.conv(channels, 1).conv(channels, 3, stride, groups=channels // 8)
            net.gate(before // 4).conv(channels, 1).pointwise(2)
    return net.mean().linear(1000)


def _googlenet() -> Net:
    net = Net(224, normed=False).conv(64, 7, 2).pool(3, 2).pointwise(operations=10)
    net.conv(64, 1).conv(192, 3).pointwise(operations=10).pool(3, 2)
    for at, (one, to3, three, to5, five, pooled) in enumerate((
            (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64),
            (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128), (256, 160, 320, 32, 128, 128),
            (384, 192, 384, 48, 128, 128))):
        before = net.channels
        net.conv(one, 1).branch(before).conv(to3, 1).conv(three, 3).branch(before)
        net.conv(to5, 1).conv(five, 5).branch(before).pool(3, 1, 1).conv(pooled, 1)
        net.branch(one + three + five + pooled).pointwise()
        if at in (1, 6):
            net.pool(3, 2)
    return net.mean().linear(1000)


def _inception_v3() -> Net:
    net = Net(299).conv(32, 3, 2, 0).conv(32, 3, 1, 0).conv(64, 3).pool(3, 2, up=False)
    net.conv(80, 1).conv(192, 3, 1, 0).pool(3, 2, up=False)
    for pooled in (32, 64, 64):
        c = net.channels
        net.conv(64, 1).branch(c).conv(48, 1).conv(64, 5).branch(c)
        net.conv(64, 1).conv(96, 3).conv(96, 3).branch(c).pool(3, 1, 1).conv(pooled, 1)
        net.branch(224 + pooled).pointwise()
    net.conv(384, 3, 2, 0).branch(288, 35).conv(64, 1).conv(96, 3).conv(96, 3, 2, 0)
    net.branch(288, 35).pool(3, 2, up=False).branch(768).pointwise()
    for wide in (128, 160, 160, 192):
        net.conv(192, 1).branch(768).conv(wide, 1).valid(wide, (1, 7), 17).valid(192, (7, 1), 17)
        net.branch(768).conv(wide, 1).valid(wide, (7, 1), 17).valid(wide, (1, 7), 17)
        net.valid(wide, (7, 1), 17).valid(192, (1, 7), 17)
        net.branch(768).pool(3, 1, 1).conv(192, 1).branch(768).pointwise()
    net.conv(192, 1).conv(320, 3, 2, 0).branch(768, 17)
    net.conv(192, 1).valid(192, (1, 7), 17).valid(192, (7, 1), 17).conv(192, 3, 2, 0)
    net.branch(768, 17).pool(3, 2, up=False).branch(1280).pointwise()
    for c in (1280, 2048):
        net.conv(320, 1).branch(c).conv(384, 1).valid(384, (1, 3), 8).branch(384)
        net.valid(384, (3, 1), 8).branch(c).conv(448, 1).conv(384, 3).valid(384, (1, 3), 8)
        net.branch(384).valid(384, (3, 1), 8).branch(c).pool(3, 1, 1).conv(192, 1)
        net.branch(2048).pointwise()
    return net.mean().linear(1000)


def _vgg(stages: tuple[int, ...], side: int = 224) -> Net:
    net = Net(side, normed=False)
    for count, wide in zip(stages, (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            net.conv(wide, 3)
        net.pool(2, 2)
    hidden, classes = (4096, 1000) if side == 224 else (512, 10)
    return net.linear(hidden).linear(hidden).linear(classes)


def _resnet(blocks: tuple[int, ...], deep: bool, side: int = 224) -> Net:
    net = Net(side).conv(64, 7, 2).pool(3, 2, 1, up=False) if side == 224 else Net(side).conv(64, 3)
    for stage, count in enumerate(blocks):
        wide = 64 << stage
        out = 4 * wide if deep else wide
        for block in range(count):
            before, at, stride = net.channels, net.side, 2 if stage and not block else 1
            if stride == 2 or before != out:
                net.conv(out, 1, stride, 0).branch(before, at)
            if deep:
                net.conv(wide, 1).conv(wide, 3, stride).conv(out, 1)
            else:
                net.conv(wide, 3, stride).conv(wide, 3)
            net.pointwise(2)
    return net.mean().linear(1000 if side == 224 else 10)


def _densenet40() -> Net:
    net = Net(32).conv(16, 3)
    for block in range(3):
        for _ in range(12):
            before = net.channels
            net.conv(12, 3).branch(before + 12).pointwise()
        if block < 2:
            net.conv(net.channels, 1).pool(2, 2)
    return net.mean().linear(10)


def _dqn() -> Net:
    net = Net(84, 4, normed=False).conv(32, 8, 4, 0).conv(64, 4, 2, 0).conv(64, 3, 1, 0)
    return net.linear(512).linear(18)


_NETS: dict[str, Callable[[], Net]] = {
    "alexnet-227": _alexnet, "alexnet-one-column": _alexnet_one_column, "nin": _nin,
    "squeezenet1.0": lambda: _squeezenet(True, 224),
    "squeezenet1.0-32": lambda: _squeezenet(True, 32),
    "squeezenet1.1-227": lambda: _squeezenet(False, 227),
    "mobilenetv2": _mobilenet_v2, "mobilenetv3-large": lambda: _mobilenet_v3(True),
    "mobilenetv3-small": lambda: _mobilenet_v3(False), "mnasnet-b1": _mnasnet,
    "proxylessnas": _proxylessnas, "shufflenet-g3": _shufflenet, "shufflenetv2": _shufflenet_v2,
    "efficientnet-b0": _efficientnet, "regnety-400m": _regnety, "googlenet": _googlenet,
    "inceptionv3": _inception_v3,
    "vgg11": lambda: _vgg((1, 1, 2, 2, 2)), "vgg13": lambda: _vgg((2, 2, 2, 2, 2)),
    "vgg16": lambda: _vgg((2, 2, 3, 3, 3)), "vgg19": lambda: _vgg((2, 2, 4, 4, 4)),
    "vgg16-32": lambda: _vgg((2, 2, 3, 3, 3), 32),
    "resnet18": lambda: _resnet((2, 2, 2, 2), False),
    "resnet34": lambda: _resnet((3, 4, 6, 3), False),
    "resnet50": lambda: _resnet((3, 4, 6, 3), True),
    "resnet101": lambda: _resnet((3, 4, 23, 3), True),
    "resnet152": lambda: _resnet((3, 8, 36, 3), True),
    "resnet50-32": lambda: _resnet((3, 4, 6, 3), True, 32),
    "densenet40": _densenet40, "dqn": _dqn,
}
NETS = frozenset(_NETS) | {f"mobilenet{width}-{side}" for width in (0.25, 0.5, 0.75, 1.0)
                           for side in (128, 160, 192, 224)}


@cache
def layers_of(name: str) -> tuple[Layer, ...]:
    """The layers of a network of `NETS`; several joined by " + " one after the other."""
    if " + " in name:
        return tuple(layer for part in name.split(" + ") for layer in layers_of(part))
    if name in _NETS:
        return tuple(_NETS[name]().layers)
    width, _, side = name.removeprefix("mobilenet").partition("-")
    return tuple(_mobilenet(float(width), int(side)).layers)
