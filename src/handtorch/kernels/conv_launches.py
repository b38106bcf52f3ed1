"""Which kernels compute a convolution, the gradient of x and that of w for a shape on a device.

Pictures are [N, height, width, channels], weights [height, width, inner, all outer]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_epilogue import NOTHING, Epilogue
from handtorch.kernels.conv_shapes import (
    MOST_PARTIAL_BYTES,
    Conv,
    Pair,
    grad_weight_sizes,
    inside,
    named,
    negative,
)
from handtorch.kernels.conv_specs import (
    DEPTHWISE,
    DEPTHWISE3,
    DEPTHWISE_WEIGHT,
    DEPTHWISE_WEIGHT3,
    PACK,
    TILE,
    WEIGHT,
    WEIGHT_PACKED,
    depthwise_places,
    panel_width,
)
from handtorch.kernels.conv_tiles import DEPTHWISE3_SUM_PIXELS, ConvPass, Op
from handtorch.kernels.move import Axis, fill_step, move_step, strides_of
from handtorch.kernels.simple import sum_axis_step
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import chosen_variant
from handtorch.kernels.winograd import Winograd, weight_steps

# Bytes of x from which a depthwise gradient of w asks for rows ahead: it comes from memory then,
# which takes 0.6 to 0.7 of the time so; from a cache 1.1 times it. With steps of two it would be
# 0.7 to 0.8 of the time, and 1.3 times it.
FAR_PICTURES = 3_000_000
# Of conv_pack on a CPU: items for each core, and the shortest run worth an item.
PACK_ITEMS, LEAST_RUN = 16, 64
# Of an item of conv_weight_packed. A panel of so many pixels rests in a nearest cache of 32 KB, the
# rest in the next one (docs/performance.md).
PACKED_PIXELS, PACKED_COLUMNS, PACKED_ROWS = 64, 128, 192


@dataclass(frozen=True)
class Launches:
    """The launches of one convolution node; `scratch` is asked for space between two of them."""

    conv: Conv
    spec: DeviceSpec
    scratch: Callable[[Shape], Value]
    node: int = 0
    flops: int = 0

    def forward(self, x: Value, w: Value, y: Value, then: Epilogue = NOTHING) -> tuple[Step, ...]:
        """y = then(conv(x, w))"""
        if self.conv.is_depthwise:
            c = self.conv
            return self._depthwise("conv", x, w, y, then, c.x, c.y, c.stride, (1, 1),
                                   (*c.padding, *c.dilation))
        before: tuple[Step, ...] = ()
        if self.conv.has_few_inner:
            x, before = self._padded(x)
        problem = ConvPass("conv", self.conv)
        return *before, *self._slide(problem, x, w, y, then)

    def grad_input(self, dy: Value, w: Value, dx: Value, then: Epilogue = NOTHING
                   ) -> tuple[Step, ...]:
        """dx = then(gradient of x for dy): also what a transposed convolution does to dy."""
        c = self.conv.simplest()
        if c.is_depthwise:
            return self._depthwise("conv_grad_input", dy, w, dx, then, c.y, c.x, (1, 1), c.stride,
                                   (*negative(c.padding), *negative(c.dilation)))
        problem = ConvPass("conv_grad_input", self.conv)
        return self._slide(problem, dy, w, dx, then)

    def _padded(self, x: Value) -> tuple[Value, tuple[Step, ...]]:
        """`x`, or where there is padding a copy of it that has the padding, and the launches that
        make that copy: what lies side by side there is a row of taps."""
        c = self.conv
        size = c.rows_of_taps().x
        if size == c.x:
            return x, ()
        padded = self.scratch((c.n, *size, c.inner))
        to = strides_of(padded.shape)
        axes = [Axis(*a) for a in zip(x.shape, strides_of(x.shape), to, strict=True)]
        first = c.padding[0] * to[1] + c.padding[1] * to[2]
        return padded, (fill_step(padded, 0.0, node=self.node),
                        move_step(x, padded, axes, y_from=first, node=self.node))

    def _slide(self, problem: ConvPass, source: Value, w: Value, out: Value, then: Epilogue
               ) -> tuple[Step, ...]:
        """By conv_tile; the gradient sums `w` over the channels that lie side by side."""
        variant, sizes = chosen_variant(problem, self.spec), problem.launch_sizes()
        before: tuple[Step, ...] = ()
        macros = dict(variant.defines)
        if variant.form == "conv_winograd":
            return Winograd(sizes, macros, self.spec, problem.op == "conv_grad_input",
                            self.scratch, self.node, self.flops
                            ).steps(source, w, out, then)
        if variant.form == "conv_dot":
            macros["DOT"] = 1
        elif variant.form == "conv_packed":
            w, pack = self._packed(w, macros, sizes, problem.op == "conv_grad_input")
            macros, before = macros | {"PB": 1}, (pack,)
        zeros = w
        if inside(sizes) < 1:
            zeros = self.scratch((sizes["INNER"],))
            before = (*before, fill_step(zeros, 0.0, node=self.node))
        access = ("r", "r", "r", "w", *("r" for _ in then.operands))
        return *before, TILE.step((source, w, zeros, out, *then.operands), sizes,
                                  macros | then.macros(), node=self.node, flops=self.flops,
                                  access=access)

    def _depthwise(self, op: Op, source: Value, w: Value, out: Value, then: Epilogue, size: Pair,
                   out_size: Pair, in_step: Pair, step: Pair, taps: Sequence[int]
                   ) -> tuple[Step, ...]:
        c, variant = self.conv, chosen_variant(ConvPass(op, self.conv), self.spec)
        share, access = dict(variant.defines), ("r", "r", "w", *("r" for _ in then.operands))
        if variant.form == "depthwise3":
            sizes = {"N": c.n, "C": c.groups, **named("IN", size), **named("OUT", out_size)}
            macros = self._share_near(op, share, sizes) | then.macros()
            return (DEPTHWISE3.step((source, w, out, *then.operands), sizes, macros,
                                    node=self.node, flops=self.flops, access=access),)
        macros = {"R": share["R"], "V": share["V"], **named("STEP", step), **then.macros()}
        sizes = {"N": c.n, "C": c.groups, **named("IN", size), **named("OUT", out_size),
                 "KH": c.kernel[0], "KW": c.kernel[1], **named("IN_STEP", in_step),
                 **dict(zip(("PAD_H", "PAD_W", "DIL_H", "DIL_W"), taps, strict=True))}
        places, vectors = depthwise_places(sizes, step, macros["R"]), c.groups // macros["V"]
        if items := share["ITEMS"]:
            sizes["PLACES"] = max(1, places // items)
            blocks = ceil_div(items, ceil_div(places, sizes["PLACES"]) * prod(step))
            sizes["VECTORS"] = ceil_div(vectors, blocks)
        else:
            sizes |= {"PLACES": 1, "VECTORS": 1}
        return (DEPTHWISE.step((source, w, out, *then.operands), sizes, macros, node=self.node,
                               flops=self.flops, access=access),)

    def _share_near(self, op: Op, share: dict[str, int], sizes: dict[str, int]) -> dict[str, int]:
        """What depthwise3 must be told beside the `sizes`, and its macros. Pairs of rows are shared
        out, and vectors of channels where there are fewer pairs than items."""
        c, turned = self.conv, op == "conv_grad_input"
        pairs, vectors = c.n * ceil_div(sizes["OUT_H"], 2), c.groups // share["V"]
        blocks = min(ceil_div(share["ITEMS"], pairs), vectors)
        pad = (2 - c.padding[0], 2 - c.padding[1]) if turned else c.padding
        sizes |= {**named("PAD", pad), "PAIRS": ceil_div(pairs, share["ITEMS"]),
                  "VECTORS": ceil_div(vectors, blocks)}
        return {"V": share["V"], "STEP": c.stride[0], "TURNED": int(turned)}

    def grad_weight(self, dy: Value, x: Value, dw: Value) -> tuple[Step, ...]:
        """dw = the gradient of w for dy: partial sums over chunks of rows, then their sum."""
        variant = chosen_variant(ConvPass("conv_grad_weight", self.conv), self.spec)
        if variant.form == "conv_weight_winograd":
            return weight_steps(dy, x, dw, conv=self.conv, tile=dict(variant.defines),
                                spec=self.spec, scratch=self.scratch, node=self.node,
                                flops=self.flops)
        if variant.form == "depthwise_weight3":
            return self._near_taps(dy, x, dw, dict(variant.defines))
        before: tuple[Step, ...] = ()
        c = self.conv.for_grad_weight()
        if self.conv.has_few_inner:
            x, before = self._padded(x)
        share, sizes = dict(variant.defines), grad_weight_sizes(self.conv)
        rows, taps = c.n * c.y[0], prod(c.kernel)
        if c.is_depthwise:
            kernel, share["AWAY"] = DEPTHWISE_WEIGHT, c.dilation[1]
            share["SUMS"] = share["TAPS"] * share["DOWN"]
            sizes |= {"C": c.groups, "LINES": share["LINES"] or c.kernel[0], "FAR": self._is_far(x)}
            items = (ceil_div(c.groups, panel_width(share))
                     * ceil_div(c.kernel[0], sizes["LINES"]))
        elif variant.form == "conv_weight_packed":
            kernel, items = WEIGHT_PACKED, _share_packed(c, share, sizes)
        else:
            kernel, share["FEW"] = WEIGHT, int(c.inner < share["R"])
            items = taps * c.groups * ceil_div(c.outer, panel_width(share))
        shares = ceil_div(share["ITEMS"], items)
        if shares == 2 and kernel is DEPTHWISE_WEIGHT:      # a second launch costs more
            shares = 1
        wanted = min(ceil_div(rows * c.y[1], share["CHUNK"]), shares)
        sizes["ROWS"] = ceil_div(rows, max(1, min(wanted, rows, MOST_PARTIAL_BYTES // dw.nbytes)))
        chunks = ceil_div(rows, sizes["ROWS"])
        if kernel is WEIGHT:
            sizes["BLOCK"] = _block(c.inner, share["R"],
                                    ceil_div(share["ITEMS"], items * chunks))
            rests = share["SOME"] and c.outer % panel_width(share) == 0
            sizes["SOME"] = ceil_div(share["SOME"], c.y[1]) if rests else sizes["ROWS"]
        part = dw if chunks == 1 else self.scratch((chunks, *dw.shape))
        macros = {k: v for k, v in share.items() if k in kernel.defaults}
        step = kernel.step((dy, x, part), sizes, macros, node=self.node, flops=self.flops)
        if chunks == 1:
            return *before, step
        return *before, step, sum_axis_step(part, dw, self.spec, self.node)

    def _near_taps(self, dy: Value, x: Value, dw: Value, share: dict[str, int]
                   ) -> tuple[Step, ...]:
        """By depthwise_weight3. Where one chunk is enough for every core there is nothing to add
        up; of many pixels there are several, so that cores end together."""
        c, v = self.conv, share["V"]
        rows, vectors = c.n * c.y[0], ceil_div(c.groups, v)
        chunks = max(ceil_div(rows * c.y[1], share["CHUNK"]),
                     ceil_div(self.spec.compute_units, vectors))
        chunks = max(1, min(chunks, rows, MOST_PARTIAL_BYTES // dw.nbytes))
        some = 2 * ceil_div(rows, 2 * chunks)               # pairs of rows
        chunks = ceil_div(rows, some)
        sizes = {"N": c.n, "C": c.groups, **named("IN", c.x), **named("OUT", c.y),
                 **named("PAD", c.padding), "ROWS": some,
                 "SOME": 2 * ceil_div(DEPTHWISE3_SUM_PIXELS, 2 * c.y[1]),
                 "BLOCKS": ceil_div(vectors * chunks, share["ITEMS"])}
        macros = {"V": v, "STEP": c.stride[0], "FAR": self._is_far(x)}
        part = dw if chunks == 1 else self.scratch((chunks, *dw.shape))
        step = DEPTHWISE_WEIGHT3.step((dy, x, part), sizes, macros, node=self.node,
                                      flops=self.flops)
        if chunks == 1:
            return (step,)
        return step, sum_axis_step(part, dw, self.spec, self.node)

    def _is_far(self, x: Value) -> int:
        c = self.conv
        return int(self.spec.kind == "cpu" and c.stride == (1, 1) and x.nbytes > FAR_PICTURES)

    def _packed(self, w: Value, tile: dict[str, int], sizes: dict[str, int], turned: bool
                ) -> tuple[Value, Step]:
        """Panels of `w` and the launch that makes them."""
        width, taps = panel_width(tile), sizes["KH"] * sizes["KW"]
        panels = ceil_div(sizes["OUTER"], width)
        packed = self.scratch((sizes["GROUPS"] * panels * taps * sizes["INNER"] * width,))
        row = self.conv.groups * self.conv.outer
        lane, step = (row, 1) if turned else (1, row)
        run = pack_run(sizes["INNER"], sizes["GROUPS"] * panels * taps, self.spec)
        return packed, PACK.step(
            (w, packed), {"GROUPS": sizes["GROUPS"], "PANELS": panels, "LANES": sizes["OUTER"],
                          "T": taps, "B": sizes["INNER"], "RUN": run,
                          "ST": sizes["OUTER" if turned else "INNER"] * row,
                          "SG": self.conv.outer, "SL": lane, "SB": step},
            {"W": width, "TURNED": int(turned and row > 1)}, node=self.node)


def pack_run(depth: int, others: int, spec: DeviceSpec) -> int:
    """How many of `depth` values an item of conv_pack takes, where `others` items share the rest.
    A CPU reads long runs faster, but all its cores are to have some."""
    if spec.kind != "cpu":
        return 16
    blocks = ceil_div(PACK_ITEMS * spec.compute_units, others)
    return max(ceil_div(ceil_div(depth, blocks), 16) * 16, LEAST_RUN)


def _share_packed(c: Conv, macros: dict[str, int], sizes: dict[str, int]) -> int:
    """What conv_weight_packed must be told beside the tile, and how many items a chunk has.

    Blocks are halved at most to get enough items: a chunk more is a gradient more to add up."""
    height, breadth = (c.outer, c.inner) if macros["TURNED"] else (c.inner, c.outer)
    width, tile = panel_width(macros), macros["R"]
    macros |= {"PIXELS": PACKED_PIXELS, "COLUMNS": width * max(1, PACKED_COLUMNS // width)}
    macros["SUMS"] = PACKED_ROWS * macros["COLUMNS"]
    runs, taps = ceil_div(breadth, macros["COLUMNS"]) * c.groups, prod(c.kernel)
    least = ceil_div(height, PACKED_ROWS)
    blocks = min(max(least, ceil_div(macros["ITEMS"], runs * taps)), 2 * least)
    sizes["BLOCK"] = min(ceil_div(ceil_div(height, blocks), tile) * tile, PACKED_ROWS)
    together = PACKED_ROWS // sizes["BLOCK"]
    sizes["TAPS"] = taps if taps <= together else 1
    return ceil_div(height, sizes["BLOCK"]) * runs * ceil_div(taps, sizes["TAPS"])


def _block(channels: int, rows: int, count: int) -> int:
    """The channels of an item: whole tiles of `rows`, in about `count` blocks, none too short."""
    block = ceil_div(ceil_div(channels, count), rows) * rows
    while 0 < channels % block < rows and block < channels:
        block += rows
    return min(block, channels)
