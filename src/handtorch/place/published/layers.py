"""Networks as layers, by arithmetic alone: what each computes, reads, writes and keeps.

Needs neither torch nor weights. Counts are of one picture in float32; batch-norm is part of its
convolution and an activation part of what it follows, as every inference engine has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

WORD = 4


@dataclass(frozen=True)
class Layer:
    """`kind` is the class of kernel that computes it; `positions` and `channels` are of its output,
    `depth` is how many numbers make one of its output's."""

    kind: str
    inputs: int
    weights: int
    positions: int
    channels: int
    depth: int
    normed: bool = False

    @property
    def outputs(self) -> int:
        return self.positions * self.channels

    @property
    def flops(self) -> int:
        return (2 if self.weights else 1) * self.depth * self.outputs

    @property
    def moved_bytes(self) -> int:
        return WORD * (self.inputs + self.weights + self.outputs)


class Net:
    """Layers put one behind the other; `at` is the shape where the next one begins."""

    def __init__(self, side: int, channels: int = 3, *, normed: bool = True) -> None:
        self.layers: list[Layer] = []
        self.channels, self.side = channels, side
        self._normed = normed

    def conv(self, channels: int, kernel: int, stride: int = 1, pad: int | None = None,
             groups: int = 1) -> Net:
        """`pad` None keeps the side, but for the stride."""
        around = kernel // 2 if pad is None else pad
        side = (self.side + 2 * around - kernel) // stride + 1
        depth = self.channels // groups * kernel * kernel
        kind = _conv_kind(kernel, stride, groups, self.channels)
        self._add(kind, side, channels, depth, channels * depth, self._normed)
        return self

    def depthwise(self, kernel: int, stride: int = 1) -> Net:
        return self.conv(self.channels, kernel, stride, groups=self.channels)

    def valid(self, channels: int, kernel: tuple[int, int], side: int) -> Net:
        """A convolution of a side that the caller knows: not square, or without a rim."""
        depth = self.channels * kernel[0] * kernel[1]
        self._add("conv", side, channels, depth, channels * depth, self._normed)
        return self

    def pool(self, kernel: int, stride: int, pad: int = 0, *, up: bool = True) -> Net:
        whole = (self.side + 2 * pad - kernel) / stride
        side = (ceil(whole) if up else int(whole)) + 1
        self._add("pointwise", side, self.channels, kernel * kernel, 0, False)
        return self

    def mean(self) -> Net:
        self._add("pointwise", 1, self.channels, self.side ** 2, 0, False)
        return self

    def linear(self, channels: int) -> Net:
        depth = self.channels * self.side ** 2
        self._add("linear", 1, channels, depth, channels * depth, False)
        return self

    def pointwise(self, operands: int = 1, operations: int = 1) -> Net:
        """Sums, products, norms, copies: every number of `operands` such tensors is read."""
        here = self.channels * self.side ** 2
        self.layers.append(Layer("pointwise", operands * here, 0, self.side ** 2, self.channels,
                                 operations))
        return self

    def gate(self, hidden: int) -> Net:
        """Squeeze and excite: the mean of each map, two small products, the maps scaled."""
        side, channels = self.side, self.channels
        self.mean().linear(hidden).linear(channels)
        self.side = side
        return self.pointwise()

    def branch(self, channels: int | None = None, side: int | None = None) -> Net:
        """Go on from another shape; what was added stays."""
        self.channels = channels if channels is not None else self.channels
        self.side = side if side is not None else self.side
        return self

    def _add(self, kind: str, side: int, channels: int, depth: int, weights: int,
             normed: bool) -> None:
        if side < 1:
            raise ValueError(f"a {kind} of side {self.side} leaves nothing")
        here = self.channels * self.side ** 2
        self.layers.append(Layer(kind, here, weights, side ** 2, channels, depth, normed))
        self.channels, self.side = channels, side


def _conv_kind(kernel: int, stride: int, groups: int, channels: int) -> str:
    """By how it can be computed: Winograd's way needs 3x3 and stride 1."""
    if groups == channels and groups > 1:
        return "depthwise"
    if groups > 1:
        return "grouped"
    if kernel == 1:
        return "conv1x1"
    return "conv3x3" if kernel == 3 and stride == 1 else "conv"


def parameters(layers: list[Layer]) -> int:
    """Weights, and a bias for each channel of a layer that has weights."""
    return sum(layer.weights + layer.channels for layer in layers if layer.weights)


@dataclass(frozen=True)
class Operation:
    """One operation of a training step of a framework that runs them one by one."""

    kind: str
    flops: int
    moved_bytes: int


def training(layers: list[Layer], batch: int) -> Iterator[Operation]:
    """Forward, backward and update, each operation for itself: norms and activations too."""
    for layer in layers:
        yield Operation(layer.kind, batch * layer.flops,
                        WORD * (batch * (layer.inputs + layer.outputs) + layer.weights))
        after = (2 if layer.normed else 1) if layer.weights else 0
        for _ in range(2 * after):          # each of them forward and backward
            yield Operation("pointwise", batch * layer.outputs, 2 * WORD * batch * layer.outputs)
        backward = 2 if layer.weights else 1
        for _ in range(backward):
            yield Operation(layer.kind, batch * layer.flops,
                            WORD * (batch * (layer.inputs + layer.outputs) + layer.weights))
        if layer.weights:                   # weights and bias, or weights and a norm's two vectors
            for size in (layer.weights, *(layer.channels,) * (2 if layer.normed else 1)):
                yield Operation("pointwise", 2 * size, 4 * WORD * size)


def kept_bytes(layers: list[Layer], batch: int) -> int:
    """What the backward pass needs of the forward one: each layer's output, and its norm's."""
    return WORD * batch * sum(layer.outputs * (2 if layer.normed else 1) for layer in layers)
