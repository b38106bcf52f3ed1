"""Winograd's convolution of 3 x 3 taps: four results for 16 multiplications instead of 36.

For cores with caches: what a block of tiles needs between input and result rests there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Shape, Value
from handtorch.graph.step import Step
from handtorch.kernels.conv_epilogue import Epilogue
from handtorch.kernels.conv_shapes import MOST_PARTIAL_BYTES, Conv, grad_weight_sizes
from handtorch.kernels.conv_specs import EPILOGUE, panel_width
from handtorch.kernels.simple import sum_axis_step
from handtorch.kernels.spec import (
    Defines,
    Geometry,
    Kernel,
    Sizes,
    ceil_div,
    dividing_width,
    number,
    round_up,
)

# A block of tiles: all of it rests in a next cache of 1 MB between input and result, beside the
# weights that it meets. With more tiles 64 channels gained nothing (docs/performance.md).
ROOM_FLOATS, MOST_TILES = 112 << 10, 24
ITEMS = 2                         # for each compute unit; each has a block's room
WORTH = 80.0                      # see is_worth
# Of an item of winograd_weight: what it holds rests in 1 MB.
WEIGHT_ROWS, WEIGHT_COLUMNS, WEIGHT_TILES = 64, 64, 32
LEAST_TILES = 8
PACK_RUN = 16                     # channels that an item of winograd_pack takes
_SIZES = ("N", "INNER", "OUTER", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "TILES",
          "PANELS")
_LINE = 16                        # floats of a cache line


def _items(defines: Defines, sizes: Sizes) -> Geometry:
    panels = ceil_div(int(sizes["OUTER"]), panel_width(defines))
    return (int(sizes["BLOCKS"]), ceil_div(panels, int(sizes["PANELS"])), 1), (1, 1, 1)


def _pack_items(defines: Defines, sizes: Sizes) -> Geometry:
    panels = ceil_div(int(sizes["LANES"]), number(defines, "W"))
    return (panels, ceil_div(int(sizes["B"]), int(sizes["RUN"])), 1), (1, 1, 1)


def _weight_items(defines: Defines, sizes: Sizes) -> Geometry:
    return (int(sizes["ITEMS"]), 1, 1), (1, 1, 1)


PACK = Kernel("winograd_pack", ("r", "w"), _pack_items, dict.fromkeys(("LANES", "B", "RUN"), "int"),
              {"W": 8, "V": 4, "TURNED": 0})
WINOGRAD = Kernel("winograd", ("r", "r", "w", "w"), _items, dict.fromkeys(_SIZES, "int"),
                  {"R": 4, "NV": 2, "V": 4, "VX": 4, **EPILOGUE},
                  space={"R": (4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (4, 8, 16)})
WEIGHT = Kernel("winograd_weight", ("r", "r", "w", "w"), _weight_items,
                dict.fromkeys((*_SIZES[:9], "ROWS", "COLUMNS", "TILES", "CHUNK"), "int"),
                {"R": 4, "NV": 2, "V": 4, "VX": 4},
                space={"R": (4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (4, 8, 16)})
KERNELS = (PACK, WINOGRAD, WEIGHT)


def tiles_of(sizes: Mapping[str, int | float]) -> int:
    """Squares of 2 x 2 pixels, those at the edges included."""
    return (int(sizes["N"]) * ceil_div(int(sizes["OUT_H"]), 2)
            * ceil_div(int(sizes["OUT_W"]), 2))


def is_worth(sizes: Mapping[str, int], share: float) -> bool:
    """Whether the multiplications saved outweigh the transformed weights, which are to be made anew
    for each step: for each weight about 96 bytes more pass through memory, 2 ns, in which a
    core does as much as 50 pixels would ask for. `share` of the taps would be done without."""
    done = 9 * share * sizes["N"] * sizes["OUT_H"] * sizes["OUT_W"]
    return done - 16 * tiles_of(sizes) > 9 * WORTH


def is_right(conv: Conv, op: str) -> bool:
    """Whether there are tiles that compute this pass of a convolution."""
    plain = (conv.groups == 1 and conv.kernel == (3, 3)
             and conv.stride == conv.dilation == (1, 1) and not conv.has_few_inner)
    multiple = 16 if op == "conv_grad_input" else 4
    return plain and conv.inner % multiple == 0 and conv.outer % multiple == 0


def takes(conv: Conv, op: str, tile: Mapping[str, int]) -> bool:
    """Whether this tile is one of them. Weights are turned in squares of 16."""
    if op == "conv_grad_weight":
        return gcd(WEIGHT_ROWS, conv.inner) % tile["R"] == 0 and conv.outer % tile["V"] == 0
    return op == "conv" or panel_width(tile) % 16 == 0


@dataclass(frozen=True)
class Winograd:
    """The launches of one; `sizes` are those of conv_tile."""

    sizes: Mapping[str, int]
    tile: Mapping[str, int]
    spec: DeviceSpec
    turned: bool
    scratch: Callable[[Shape], Value]
    node: int
    flops: int
    most_tiles: int = MOST_TILES

    def steps(self, source: Value, w: Value, out: Value, then: Epilogue) -> tuple[Step, ...]:
        inner, outer, width = self.sizes["INNER"], self.sizes["OUTER"], panel_width(self.tile)
        panels = ceil_div(outer, width)
        packed = self.scratch((panels * 16 * inner * width,))
        pack = PACK.step((w, packed), {"LANES": outer, "B": inner, "RUN": PACK_RUN},
                         {"W": width, "V": 16 if self.turned else dividing_width(gcd(width, outer)),
                          "TURNED": int(self.turned)}, node=self.node)
        sizes = self._shared(panels, source.size + out.size)
        items = sizes["BLOCKS"] * ceil_div(panels, sizes["PANELS"])
        room = self.scratch((items * 16 * (sizes["TILES"] * (inner + _LINE + width) + _LINE),))
        access = ("r", "r", "w", "w", *("r" for _ in then.operands))
        return pack, WINOGRAD.step(
            (source, packed, room, out, *then.operands), sizes,
            {**self.tile, "VX": dividing_width(inner), **then.macros()}, node=self.node,
            flops=self.flops, access=access)

    def _shared(self, panels: int, floats: int) -> dict[str, int]:
        """Blocks as large as rest in a cache, and so many items that all cores end together. Their
        room is about what the pictures take, `floats`, at most: a small net holds little else."""
        rows, wanted = self.tile["R"], ITEMS * self.spec.compute_units
        all_tiles = tiles_of(self.sizes)
        of_tile = 16 * (self.sizes["INNER"] + _LINE + panel_width(self.tile))
        most = min(self.most_tiles, ROOM_FLOATS // of_tile, floats // (wanted * of_tile))
        blocks = ceil_div(all_tiles, max(rows, most // rows * rows))
        tiles = round_up(ceil_div(all_tiles, blocks), rows)
        blocks = min(ceil_div(all_tiles, tiles), wanted)
        apart = min(panels, ceil_div(wanted, blocks))
        pads = {}
        if self.turned:                         # the last tap comes first: see winograd_pack.cl
            pads = {name: self.sizes[name] + 2 for name in ("PAD_H", "PAD_W")}
        return {**self.sizes, **pads, "TILES": tiles, "BLOCKS": blocks,
                "PANELS": ceil_div(panels, apart)}


def weight_steps(dy: Value, x: Value, dw: Value, *, conv: Conv, tile: Mapping[str, int],
                 spec: DeviceSpec, scratch: Callable[[Shape], Value], node: int = 0,
                 flops: int = 0) -> tuple[Step, ...]:
    """dw = the gradient of w for dy: over chunks of tiles if there are too few blocks for all
    cores, then their sum."""
    sizes, width = grad_weight_sizes(conv), panel_width(tile)
    all_tiles, wanted = tiles_of(sizes), ITEMS * spec.compute_units
    rows = min(WEIGHT_ROWS, conv.inner)
    columns = min(max(WEIGHT_COLUMNS // width, 1), ceil_div(conv.outer, width)) * width
    blocks = ceil_div(conv.inner, rows) * ceil_div(conv.outer, columns)
    parts = min(ceil_div(2 * wanted, blocks), max(1, MOST_PARTIAL_BYTES // dw.nbytes))
    chunk = max(ceil_div(all_tiles, parts), min(WEIGHT_TILES, all_tiles))
    chunks = ceil_div(all_tiles, chunk)
    items = min(wanted, blocks * chunks)
    few = (dy.size + x.size) // (items * 16 * (rows + columns))     # see Winograd._shared
    deep = min(WEIGHT_TILES, chunk, max(few, LEAST_TILES))
    room = scratch((items * 16 * (rows * columns + deep * (rows + columns) + 3 * _LINE),))
    part = dw if chunks == 1 else scratch((chunks, *dw.shape))
    step = WEIGHT.step((dy, x, room, part), {
        **sizes, "ROWS": rows, "COLUMNS": columns, "TILES": deep, "CHUNK": chunk, "ITEMS": items},
        {**tile, "VX": dividing_width(gcd(rows, conv.inner))}, node=node, flops=flops)
    if chunks == 1:
        return (step,)
    return step, sum_axis_step(part, dw, spec, node)
