"""Which kernels compute a convolution, the gradient of x and that of w for a shape on a device.

Pictures are [N, height, width, channels], weights [height, width, inner, all outer]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_specs import (
    DEPTHWISE,
    DEPTHWISE_WEIGHT,
    PACK,
    TILE,
    WEIGHT,
    depthwise_places,
    panel_width,
)
from handtorch.kernels.gemm_tiles import Tile, best_tile, row_groups, tiles_in_a_group, tuning_for
from handtorch.kernels.move import Axis, fill_step, move_step, strides_of
from handtorch.kernels.simple import SUM_AXIS
from handtorch.kernels.spec import ceil_div, dividing_width

Pair = tuple[int, int]
DEPTHWISE_PIXELS = 8              # of a row that go at a time, for one vector of channels
DEPTHWISE_ITEMS = 64              # on a CPU, about
DEPTHWISE_VECTORS = 6             # of channels at most in an item of a weight gradient, on a CPU
DEPTHWISE_CHUNK_PIXELS = 64       # at least, of dy in a partial sum: there is less to add up then
MOST_TAPS = 8                     # side by side, whose sums are in registers
SOME_PIXELS = 128                 # of dy that a weight gradient goes through at a time
CHUNK_PIXELS = 1024               # at least, of dy in a partial sum of a weight
LEAST_ITEMS = {"cpu": 64, "gpu": 4096}      # of a weight gradient, if it can be shared out that far
MOST_PARTIAL_BYTES = 1 << 24
FEW_INNER = 4
FEW_OUTER = 16                    # for which a vector of them is not worth it
MOSTLY_INSIDE = 0.9               # of the taps: with fewer the others are worth leaving out
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

    @property
    def is_depthwise(self) -> bool:
        """Each channel sees only itself."""
        return self.inner == self.outer == 1 and self.groups > 1

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
        if self.conv.is_depthwise:
            c = self.conv
            return self._depthwise(x, w, y, bias, relu, c.x, c.y, c.stride, (1, 1),
                                   (*c.padding, *c.dilation))
        c, x, before = self._rows_of_taps(x) if self.conv.has_few_inner else (
            self.conv.simplest(), x, ())
        sizes = _sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel, x.shape[-1])
        sizes |= _named("IN_STEP", c.stride) | _named("OUT_STEP", (1, 1))
        sizes |= _named("PAD", c.padding) | _named("DIL", c.dilation)
        return *before, *self._slide(x, w, y, bias, relu, sizes, turned=False)

    def grad_input(self, dy: Value, w: Value, dx: Value, bias: Value | None = None, *,
                   relu: bool = False) -> tuple[Step, ...]:
        """dx = f(gradient of x for dy), which is also what a transposed convolution does to dy."""
        c = self.conv.simplest()
        if c.is_depthwise:
            return self._depthwise(dy, w, dx, bias, relu, c.y, c.x, (1, 1), c.stride,
                                   (*_negative(c.padding), *_negative(c.dilation)))
        sizes = _sizes(c.n, c.groups, c.outer, c.inner, c.y, c.x, c.kernel, dy.shape[-1])
        sizes |= _named("IN_STEP", (1, 1)) | _named("OUT_STEP", c.stride)
        sizes |= _named("PAD", _negative(c.padding)) | _named("DIL", _negative(c.dilation))
        return self._slide(dy, w, dx, bias, relu, sizes, turned=True)

    def _rows_of_taps(self, x: Value) -> tuple[Conv, Value, tuple[Step, ...]]:
        """The same convolution with a row of taps as one tap of many channels, which lie side by
        side in `x`, or with padding in a copy of it that has the padding; with the launches that
        make that copy."""
        c = self.conv
        size = c.x[0] + 2 * c.padding[0], c.x[1] + 2 * c.padding[1]
        merged = replace(c, x=size, kernel=(c.kernel[0], 1), inner=c.kernel[1] * c.inner,
                         padding=(0, 0))
        if size == c.x:
            return merged, x, ()
        padded = self.scratch((c.n, *size, c.inner))
        to = strides_of(padded.shape)
        axes = [Axis(*a) for a in zip(x.shape, strides_of(x.shape), to, strict=True)]
        first = c.padding[0] * to[1] + c.padding[1] * to[2]
        return merged, padded, (fill_step(padded, 0.0, node=self.node),
                                move_step(x, padded, axes, y_from=first, node=self.node))

    def _slide(self, source: Value, w: Value, out: Value, bias: Value | None, relu: bool,
               sizes: dict[str, int], turned: bool) -> tuple[Step, ...]:
        """`turned`: `w` is summed over the channels that lie side by side."""
        extra = () if bias is None else (bias,)
        does = {"BIAS": len(extra), "ACT": int(relu)}
        before: tuple[Step, ...] = ()
        classes = sizes["OUT_STEP_H"] * sizes["OUT_STEP_W"]
        pixels = ceil_div(sizes["N"] * sizes["OUT_H"] * sizes["OUT_W"], classes)
        macros = self._tile(pixels, sizes["OUTER"])
        if turned and (dots := self._dots(sizes, pixels)):
            macros = dots
        elif turned or not self._direct(macros, sizes, pixels):
            w, pack = self._packed(w, macros, sizes, turned)
            macros, before = macros | {"PB": 1}, (pack,)
        zeros, inside = w, _inside(sizes)
        if inside < MOSTLY_INSIDE and sizes["N"] > macros["R"]:
            macros = macros | {"IMAGES_FIRST": 1}
        if inside < 1:
            zeros = self.scratch((sizes["INNER"],))
            before = (*before, fill_step(zeros, 0.0, node=self.node))
        access = ("r", "r", "r", "w", *("r" for _ in extra))
        return *before, TILE.step((source, w, zeros, out, *extra), sizes, macros | does,
                                  node=self.node, flops=self.flops, access=access)

    def _depthwise(self, source: Value, w: Value, out: Value, bias: Value | None, relu: bool,
                   size: Pair, out_size: Pair, in_step: Pair, step: Pair, taps: Sequence[int]
                   ) -> tuple[Step, ...]:
        c, extra = self.conv, () if bias is None else (bias,)
        columns = ceil_div(out_size[1], step[1])
        macros = {"R": DEPTHWISE_PIXELS if columns > 4 else 4,
                  "V": dividing_width(c.groups), **_named("STEP", step),
                  "BIAS": len(extra), "ACT": int(relu)}
        sizes = {"N": c.n, "C": c.groups, **_named("IN", size), **_named("OUT", out_size),
                 "KH": c.kernel[0], "KW": c.kernel[1], **_named("IN_STEP", in_step),
                 **dict(zip(("PAD_H", "PAD_W", "DIL_H", "DIL_W"), taps, strict=True))}
        places, vectors = depthwise_places(sizes, step, macros["R"]), c.groups // macros["V"]
        if self.spec.kind == "cpu":
            sizes["PLACES"] = max(1, places // DEPTHWISE_ITEMS)
            blocks = ceil_div(DEPTHWISE_ITEMS, ceil_div(places, sizes["PLACES"]) * prod(step))
            sizes["VECTORS"] = ceil_div(vectors, blocks)
        else:
            sizes |= {"PLACES": 1, "VECTORS": 1}
        access = ("r", "r", "w", *("r" for _ in extra))
        return (DEPTHWISE.step((source, w, out, *extra), sizes, macros, node=self.node,
                               flops=self.flops, access=access),)

    def _direct(self, macros: dict[str, int], sizes: dict[str, int], pixels: int) -> bool:
        """Whether a weight is read as it lies: as a product's operand is, see gemm_tiles, but with
        half as many pixels. On 49 a packed one of 4 to 9 MB gave 1.2 to 1.5 times the rate."""
        tuning = tuning_for(self.spec)
        nbytes = 4 * sizes["KH"] * sizes["KW"] * sizes["INNER"] * sizes["OUTER"] * sizes["GROUPS"]
        return panel_width(macros) <= sizes["OUTER"] and (
            nbytes < tuning.pack_bytes or 2 * pixels < tuning.pack_rows)

    def _dots(self, sizes: dict[str, int], pixels: int) -> dict[str, int]:
        """Macros of dot products over a weight as it lies, where panels of it are not worth it."""
        fits = [t for t in tuning_for(self.spec).dots if sizes["INNER"] % dict(t.defines)["V"] == 0]
        few = sizes["OUTER"] < FEW_OUTER or pixels < tuning_for(self.spec).pack_rows
        if not few or not fits:
            return {}
        macros = {**dict(fits[0].defines), "NV": min(4, sizes["OUTER"]), "DOT": 1}
        flops = 2 * pixels * sizes["OUTER"] * sizes["INNER"] * sizes["KH"] * sizes["KW"]
        return macros | tiles_in_a_group(ceil_div(pixels, macros["R"]),
                                         ceil_div(sizes["OUTER"], macros["NV"]), flops, self.spec)

    def grad_weight(self, dy: Value, x: Value, dw: Value) -> tuple[Step, ...]:
        """dw = the gradient of w for dy: partial sums over chunks of rows, then their sum."""
        before: tuple[Step, ...] = ()
        c = self.conv if prod(self.conv.y) > SOME_PIXELS else self.conv.simplest()
        if c.has_few_inner:
            c, x, before = self._rows_of_taps(x)
        sizes = _sizes(c.n, c.groups, c.inner, c.outer, c.x, c.y, c.kernel, x.shape[-1])
        sizes |= _named("STRIDE", c.stride) | _named("PAD", c.padding) | _named("DIL", c.dilation)
        rows = c.n * c.y[0]
        if c.is_depthwise:
            kernel, macros = DEPTHWISE_WEIGHT, self._depthwise_taps()
            whole, vectors = self.spec.kind == "cpu", c.groups // macros["V"]
            blocks = ceil_div(vectors, DEPTHWISE_VECTORS) if whole else vectors
            sizes |= {"C": c.groups, "VECTORS": ceil_div(vectors, blocks),
                      "LINES": c.kernel[0] if whole else 1}
            items = blocks * ceil_div(c.kernel[0], sizes["LINES"])
        else:
            kernel, macros = WEIGHT, self._weight_tile(c)
            items = prod(c.kernel) * c.groups * ceil_div(c.outer, panel_width(macros))
        least = LEAST_ITEMS.get(self.spec.kind, LEAST_ITEMS["gpu"])
        pixels = DEPTHWISE_CHUNK_PIXELS if c.is_depthwise else CHUNK_PIXELS
        wanted = min(ceil_div(rows * c.y[1], pixels), ceil_div(least, items))
        sizes["ROWS"] = ceil_div(rows, max(1, min(wanted, rows, MOST_PARTIAL_BYTES // dw.nbytes)))
        chunks = ceil_div(rows, sizes["ROWS"])
        if kernel is WEIGHT:
            sizes["BLOCK"] = _block(c.inner, macros["R"], ceil_div(least, items * chunks))
            rests = self.spec.kind == "cpu" and c.outer % panel_width(macros) == 0
            sizes["SOME"] = ceil_div(SOME_PIXELS, c.y[1]) if rests else sizes["ROWS"]
        part = dw if chunks == 1 else self.scratch((chunks, *dw.shape))
        step = kernel.step((dy, x, part), sizes, macros, node=self.node, flops=self.flops)
        if chunks == 1:
            return *before, step
        total = {"OUTER": 1, "REDUCE": chunks, "INNER": dw.size}
        return *before, step, SUM_AXIS.step((part, dw), total, node=self.node)

    def _depthwise_taps(self) -> dict[str, int]:
        width = self.conv.kernel[1]
        return {"V": dividing_width(self.conv.groups),
                "TAPS": max(t for t in range(1, MOST_TAPS + 1) if width % t == 0)}

    def _weight_tile(self, c: Conv) -> dict[str, int]:
        """dy is read as it lies: a tile is no wider than its rows."""
        tile = best_tile(tuning_for(self.spec).tiles, c.inner, c.outer, self.spec)
        macros = {k: v for k, v in tile.defines if k != "KU"}
        return macros | {"FEW": int(c.inner < macros["R"])}

    def _tile(self, rows: int, columns: int) -> dict[str, int]:
        """Macros of the cheapest good tile of the products; panels are padded, so all fit."""
        fits = [t for t in tuning_for(self.spec).tiles if t.items <= self.spec.max_work_group]
        fits = [t for t in fits if t.rate >= GOOD_RATE] or fits

        def cost(tile: Tile) -> float:
            return tile.cost(rows, columns, self.spec.compute_units)
        best = min(fits, key=cost)
        macros = {k: v for k, v in best.defines if k != "KU"}
        return macros | row_groups(best, rows, columns, self.spec)

    def _packed(self, w: Value, tile: dict[str, int], sizes: dict[str, int], turned: bool
                ) -> tuple[Value, Step]:
        """Panels of `w` and the launch that makes them."""
        width, taps = panel_width(tile), sizes["KH"] * sizes["KW"]
        panels = ceil_div(sizes["OUTER"], width)
        packed = self.scratch((sizes["GROUPS"] * panels * taps * sizes["INNER"] * width,))
        row = self.conv.groups * self.conv.outer
        lane, step = (row, 1) if turned else (1, row)
        return packed, PACK.step(
            (w, packed), {"GROUPS": sizes["GROUPS"], "PANELS": panels, "LANES": sizes["OUTER"],
                          "T": taps, "B": sizes["INNER"],
                          "ST": sizes["OUTER" if turned else "INNER"] * row,
                          "SG": self.conv.outer, "SL": lane, "SB": step},
            {"W": width, "TURNED": int(turned)}, node=self.node)


def _block(channels: int, rows: int, count: int) -> int:
    """The channels of an item: whole tiles of `rows`, in about `count` blocks, none too short."""
    block = ceil_div(ceil_div(channels, count), rows) * rows
    while 0 < channels % block < rows and block < channels:
        block += rows
    return min(block, channels)


def _inside(sizes: Mapping[str, int]) -> float:
    """Of the taps that conv_tile goes through the share that does not look beside its source."""
    shares = 1.0
    for side, taps in (("H", sizes["KH"]), ("W", sizes["KW"])):
        step, last, seen, inside = sizes[f"OUT_STEP_{side}"], sizes[f"IN_{side}"] - 1, 0, 0
        places = range(ceil_div(sizes[f"OUT_{side}"], step))
        for at, tap in product(range(step), range(taps)):
            first, off = divmod(at - sizes[f"PAD_{side}"] + tap * sizes[f"DIL_{side}"], step)
            if off == 0:
                seen += len(places)
                inside += sum(0 <= first + u * sizes[f"IN_STEP_{side}"] <= last for u in places)
        shares *= inside / seen if seen else 1
    return shares


def _sizes(n: int, groups: int, inner: int, outer: int, source: Pair, out: Pair, kernel: Pair,
           deep: int) -> dict[str, int]:
    return {"N": n, "GROUPS": groups, "INNER": inner, "OUTER": outer, **_named("IN", source),
            **_named("OUT", out), "KH": kernel[0], "KW": kernel[1], "DEEP": deep}


def _named(name: str, pair: Pair) -> dict[str, int]:
    return {f"{name}_H": pair[0], f"{name}_W": pair[1]}


def _negative(pair: Pair) -> Pair:
    return -pair[0], -pair[1]
