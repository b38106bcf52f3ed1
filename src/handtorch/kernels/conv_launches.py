"""Which kernels compute a convolution, the gradient of x and that of w for a shape on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_specs import (
    PACK,
    PANEL,
    PLANE,
    WEIGHT_PANEL,
    WEIGHT_PLANE,
    panel_width,
)
from handtorch.kernels.gemm_tiles import Tile, tuning_for
from handtorch.kernels.simple import SUM_AXIS
from handtorch.kernels.spec import ceil_div

Pair = tuple[int, int]
FEW_CHANNELS = 4                  # fewer in a group: vectors along the width instead
CHUNK_PIXELS = 2048               # of dy in a partial sum of a weight: its panel stays in the cache
LEAST_ITEMS = 64                  # of a weight gradient, if its rows can be shared out that far
MOST_PARTIAL_BYTES = 1 << 24
GOOD_RATE = 0.7                   # of the best tile: each further tile is a kernel to compile


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

    def simplest(self) -> Conv:
        """The same with whole images as rows, where the kernel only looks at its own pixel."""
        if (self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)
                and self.x == self.y):          # not so with the output padding of a transposed one
            flat = (1, prod(self.x))
            return replace(self, x=flat, y=flat)
        return self


@dataclass(frozen=True)
class Launches:
    """The launches of one convolution node; `scratch` is asked for space between two of them."""

    conv: Conv
    spec: DeviceSpec
    scratch: Callable[[Shape], Value]
    node: int = 0
    flops: int = 0

    def forward(self, x: Value, w: Value, y: Value, bias: Value | None = None, *,
                relu: bool = False) -> tuple[Step, ...]:
        """y = f(conv(x, w)); f adds `bias` of each channel, then applies ReLU if `relu`."""
        c = self.conv.simplest()
        sizes = _sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel)
        sizes |= _named("IN_STEP", c.stride) | _named("OUT_STEP", (1, 1))
        sizes |= _named("PAD", c.padding) | _named("DIL", c.dilation)
        return self._slide(x, w, y, bias, relu, sizes, by_outer=c.inner * prod(c.kernel),
                           by_inner=prod(c.kernel))

    def grad_input(self, dy: Value, w: Value, dx: Value, bias: Value | None = None, *,
                   relu: bool = False) -> tuple[Step, ...]:
        """dx = f(gradient of x for dy), which is also what a transposed convolution does to dy."""
        c = self.conv.simplest()
        sizes = _sizes(c.n, c.groups, c.outer, c.inner, c.y, c.x, c.kernel)
        sizes |= _named("IN_STEP", (1, 1)) | _named("OUT_STEP", c.stride)
        sizes |= _named("PAD", _negative(c.padding)) | _named("DIL", _negative(c.dilation))
        return self._slide(dy, w, dx, bias, relu, sizes, by_outer=prod(c.kernel),
                           by_inner=c.inner * prod(c.kernel))

    def _slide(self, source: Value, w: Value, out: Value, bias: Value | None, relu: bool,
               sizes: dict[str, int], by_outer: int, by_inner: int) -> tuple[Step, ...]:
        """`by_outer`, `by_inner`: how far apart neighbouring channels lie in a group of `w`."""
        group = sizes["OUTER"] * sizes["INNER"] * sizes["KH"] * sizes["KW"]
        extra = () if bias is None else (bias,)
        access = ("r", "r", "w", *("r" for _ in extra))
        does = {"BIAS": len(extra), "ACT": int(relu)}
        if sizes["OUTER"] < FEW_CHANNELS:
            strides = {"SG": group, "SM": by_outer, "SI": by_inner}
            wide = {"V": _lanes(ceil_div(sizes["OUT_W"], sizes["OUT_STEP_W"]))}
            return (PLANE.step((source, w, out, *extra), sizes | strides, wide | does,
                               node=self.node, flops=self.flops, access=access),)
        classes = sizes["OUT_STEP_H"] * sizes["OUT_STEP_W"]
        pixels = sizes["N"] * sizes["OUT_H"] * sizes["OUT_W"]
        tile = self._tile(ceil_div(pixels, classes), sizes["OUTER"])
        packed, pack = self._packed(
            w, tile, sizes["GROUPS"], sizes["OUTER"], (sizes["KH"] * sizes["KW"], 1),
            (sizes["INNER"], by_inner), SG=group, SL=by_outer)
        return pack, PANEL.step((source, packed, out, *extra), sizes, tile | does,
                                node=self.node, flops=self.flops, access=access)

    def grad_weight(self, dy: Value, x: Value, dw: Value) -> tuple[Step, ...]:
        """dw = the gradient of w for dy: partial sums over chunks of rows, then their sum."""
        c = self.conv.simplest()
        sizes = _sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel)
        sizes |= _named("STRIDE", c.stride) | _named("PAD", c.padding) | _named("DIL", c.dilation)
        before: tuple[Step, ...] = ()
        if c.outer < FEW_CHANNELS:
            kernel, macros, items = WEIGHT_PLANE, {"V": _lanes(c.y[1] // 2)}, dw.size
        else:
            kernel = WEIGHT_PANEL
            macros = self._tile(c.inner, c.outer)
            items = (ceil_div(c.inner, macros["R"]) * prod(c.kernel) * c.groups
                     * ceil_div(c.outer, panel_width(macros)))
            pixels = prod(c.y)
            dy, pack = self._packed(dy, macros, c.groups, c.outer,
                                    (c.n, c.groups * c.outer * pixels), (pixels, 1),
                                    SG=c.outer * pixels, SL=pixels)
            before = (pack,)
        rows = c.n * c.y[0]
        sizes["ROWS"] = ceil_div(rows, _chunks(rows, c.y[1], items, dw.nbytes))
        chunks = ceil_div(rows, sizes["ROWS"])
        part = dw if chunks == 1 else self.scratch((chunks, *dw.shape))
        step = kernel.step((dy, x, part), sizes, macros, node=self.node, flops=self.flops)
        if chunks == 1:
            return (*before, step)
        total = {"OUTER": 1, "REDUCE": chunks, "INNER": dw.size}
        return (*before, step, SUM_AXIS.step((part, dw), total, node=self.node))

    def _tile(self, rows: int, columns: int) -> dict[str, int]:
        """Macros of the cheapest good tile of the products; panels are padded, so all fit."""
        fits = [t for t in tuning_for(self.spec).tiles if t.items <= self.spec.max_work_group]
        fits = [t for t in fits if t.rate >= GOOD_RATE] or fits

        def cost(tile: Tile) -> float:
            return tile.cost(rows, columns, self.spec.compute_units)
        return {k: v for k, v in min(fits, key=cost).defines if k != "KU"}

    def _packed(self, x: Value, tile: dict[str, int], groups: int, lanes: int, outer: Pair,
                inner: Pair, **strides: int) -> tuple[Value, Step]:
        """Panels of `x` and the launch that makes them; `outer`, `inner`: (size, stride)."""
        width = panel_width(tile)
        panels = ceil_div(lanes, width)
        packed = self.scratch((groups * panels * outer[0] * inner[0] * width + 1,))
        sizes = {"GROUPS": groups, "PANELS": panels, "LANES": lanes, "A": outer[0], "B": inner[0],
                 "SA": outer[1], "SB": inner[1], **strides}
        return packed, PACK.step((x, packed), sizes, {"W": width}, node=self.node)


def _chunks(rows: int, width: int, items: int, weight_bytes: int) -> int:
    """Into how many partial sums a weight gradient is split."""
    wanted = max(ceil_div(rows * width, CHUNK_PIXELS), ceil_div(LEAST_ITEMS, items))
    return max(1, min(wanted, rows, MOST_PARTIAL_BYTES // weight_bytes))


def _lanes(width: int) -> int:
    return 4 if width <= 4 else 8 if width <= 8 else 16


def _sizes(n: int, groups: int, inner: int, outer: int, source: Pair, out: Pair, kernel: Pair
           ) -> dict[str, int]:
    return {"N": n, "GROUPS": groups, "INNER": inner, "OUTER": outer, **_named("IN", source),
            **_named("OUT", out), "KH": kernel[0], "KW": kernel[1]}


def _named(name: str, pair: Pair) -> dict[str, int]:
    return {f"{name}_H": pair[0], f"{name}_W": pair[1]}


def _negative(pair: Pair) -> Pair:
    return -pair[0], -pair[1]
