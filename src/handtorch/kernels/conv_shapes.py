"""The sizes of convolutions: what each pass of one goes through, before any tile is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from handtorch.kernels.spec import ceil_div

Pair = tuple[int, int]
FEW_INNER = 4
SOME_PIXELS = 128                 # of dy that a weight gradient goes through at a time
MOST_PARTIAL_BYTES = 1 << 24      # of a weight gradient in parts that are yet to be added up


@dataclass(frozen=True)
class Conv:
    """The sizes of y = conv(x, w); `inner` and `outer` are channels of x and y in one group."""

    n: int
    groups: int
    inner: int
    outer: int
    x: Pair
    y: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @property
    def is_depthwise(self) -> bool:
        """Each channel sees only itself."""
        return self.inner == self.outer == 1 and self.groups > 1

    @property
    def has_near_taps(self) -> bool:
        """3 x 3 taps side by side, of pixels that are one or two apart."""
        return (self.kernel == (3, 3) and self.dilation == (1, 1)
                and self.stride in ((1, 1), (2, 2)))

    @property
    def has_few_inner(self) -> bool:
        """Too few channels of x for a tap to be worth going to: pictures as they come."""
        return (self.groups == 1 and self.inner <= FEW_INNER and self.kernel[1] > 1
                and self.dilation[1] == 1)

    def simplest(self) -> Conv:
        """The same with whole images as rows, where the kernel only looks at its own pixel."""
        if (self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)
                and self.x == self.y):          # not so with the output padding of a transposed one
            flat = (1, prod(self.x))
            return replace(self, x=flat, y=flat)
        return self

    def rows_of_taps(self) -> Conv:
        """The same with a row of taps as one tap of many channels, over padded pictures."""
        size = self.x[0] + 2 * self.padding[0], self.x[1] + 2 * self.padding[1]
        return replace(self, x=size, kernel=(self.kernel[0], 1),
                       inner=self.kernel[1] * self.inner, padding=(0, 0))

    def for_forward(self) -> Conv:
        return self.rows_of_taps() if self.has_few_inner else self.simplest()

    def for_grad_weight(self) -> Conv:
        if self.has_few_inner:
            return self.rows_of_taps()
        return self if prod(self.y) > SOME_PIXELS else self.simplest()


def forward_sizes(conv: Conv) -> dict[str, int]:
    """What conv_tile is told of a convolution."""
    c = conv.for_forward()
    return (_sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel, conv.groups * conv.inner)
            | named("IN_STEP", c.stride) | named("OUT_STEP", (1, 1))
            | named("PAD", c.padding) | named("DIL", c.dilation))


def grad_input_sizes(conv: Conv) -> dict[str, int]:
    """What conv_tile is told of the gradient of x."""
    c = conv.simplest()
    return (_sizes(c.n, c.groups, c.outer, c.inner, c.y, c.x, c.kernel, c.groups * c.outer)
            | named("IN_STEP", (1, 1)) | named("OUT_STEP", c.stride)
            | named("PAD", negative(c.padding)) | named("DIL", negative(c.dilation)))


def grad_weight_sizes(conv: Conv) -> dict[str, int]:
    """What conv_weight is told of the gradient of w, but for how it is shared out."""
    c = conv.for_grad_weight()
    return (_sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel, conv.groups * conv.inner)
            | named("STRIDE", c.stride) | named("PAD", c.padding) | named("DIL", c.dilation))


def pixels_of_a_class(sizes: Mapping[str, int]) -> int:
    """Pixels that conv_tile computes with the same taps."""
    classes = sizes["OUT_STEP_H"] * sizes["OUT_STEP_W"]
    return ceil_div(sizes["N"] * sizes["OUT_H"] * sizes["OUT_W"], classes)


def inside(sizes: Mapping[str, int]) -> float:
    """Of the taps that conv_tile goes through the share that does not look beside its source."""
    shares = 1.0
    for side, taps in (("H", sizes["KH"]), ("W", sizes["KW"])):
        step, last, seen, met = sizes[f"OUT_STEP_{side}"], sizes[f"IN_{side}"] - 1, 0, 0
        places = range(ceil_div(sizes[f"OUT_{side}"], step))
        for at, tap in product(range(step), range(taps)):
            first, off = divmod(at - sizes[f"PAD_{side}"] + tap * sizes[f"DIL_{side}"], step)
            if off == 0:
                seen += len(places)
                met += sum(0 <= first + u * sizes[f"IN_STEP_{side}"] <= last for u in places)
        shares *= met / seen if seen else 1
    return shares


def _sizes(n: int, groups: int, inner: int, outer: int, source: Pair, out: Pair, kernel: Pair,
           deep: int) -> dict[str, int]:
    return {"N": n, "GROUPS": groups, "INNER": inner, "OUTER": outer, **named("IN", source),
            **named("OUT", out), "KH": kernel[0], "KW": kernel[1], "DEEP": deep}


def named(name: str, pair: Pair) -> dict[str, int]:
    return {f"{name}_H": pair[0], f"{name}_W": pair[1]}


def negative(pair: Pair) -> Pair:
    return -pair[0], -pair[1]
