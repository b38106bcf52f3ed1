"""The convolutions as kernels: what each needs and how it is launched.

Channels are the last axis of pictures: a vector of them is one load or store."""

from __future__ import annotations

from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number, round_up

_IMAGES = ("N", "GROUPS", "INNER", "OUTER", "IN_H", "IN_W", "OUT_H", "OUT_W", "KH", "KW")
_SOURCE = (*_IMAGES, "DEEP")
_STEPS = ("IN_STEP_H", "IN_STEP_W", "OUT_STEP_H", "OUT_STEP_W")
_STRIDE = ("STRIDE_H", "STRIDE_W")
_TAPS = ("PAD_H", "PAD_W", "DIL_H", "DIL_W")
_TILE = {"R": 4, "NV": 2, "V": 4, "WGX": 1, "WGY": 1}
EPILOGUE = {"BIAS": 0, "MORE": 0, "ACT": 0, "MASK": 0}


def _ints(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "int")


def panel_width(defines: Defines) -> int:
    """How many channels an item of a panel kernel computes."""
    return number(defines, "NV") * (1 if defines.get("DOT") else number(defines, "V"))


def _pack(defines: Defines, sizes: Sizes) -> Geometry:
    blocks = ceil_div(int(sizes["B"]), int(sizes["RUN"]))
    return (int(sizes["GROUPS"]) * int(sizes["PANELS"]), blocks, int(sizes["T"])), (1, 1, 1)


def _grid(sizes: Sizes) -> tuple[int, int, int]:
    """Rows and columns of one class of pixels, and how many classes there are."""
    steps = int(sizes["OUT_STEP_H"]), int(sizes["OUT_STEP_W"])
    rows, columns = (ceil_div(int(sizes[n]), s)
                     for n, s in zip(("OUT_H", "OUT_W"), steps, strict=True))
    return rows, columns, steps[0] * steps[1]


def _panel(defines: Defines, sizes: Sizes) -> Geometry:
    rows, columns, classes = _grid(sizes)
    x, y = number(defines, "WGX"), number(defines, "WGY")
    tiles = ceil_div(int(sizes["N"]) * rows * columns, number(defines, "R"))
    panels = ceil_div(int(sizes["OUTER"]), panel_width(defines))
    across = round_up(tiles, x), round_up(panels, y), classes * int(sizes["GROUPS"])
    return across, (x, y, 1)


def _chunks(sizes: Sizes) -> int:
    return ceil_div(int(sizes["N"]) * int(sizes["OUT_H"]), int(sizes["ROWS"]))


def _weight_panel(defines: Defines, sizes: Sizes) -> Geometry:
    x, y = number(defines, "WGX"), number(defines, "WGY")
    blocks = ceil_div(int(sizes["INNER"]), int(sizes["BLOCK"]))
    panels = ceil_div(int(sizes["OUTER"]), panel_width(defines)) * int(sizes["GROUPS"])
    taps = int(sizes["KH"]) * int(sizes["KW"])
    return (round_up(blocks * taps, x), round_up(panels, y), _chunks(sizes)), (x, y, 1)


def _weight_block(defines: Defines, sizes: Sizes) -> Geometry:
    sides = int(sizes["INNER"]), int(sizes["OUTER"])
    height, breadth = sides[::-1] if defines["TURNED"] else sides
    turns = ceil_div(int(sizes["KH"]) * int(sizes["KW"]), int(sizes["TAPS"]))
    runs = ceil_div(breadth, number(defines, "COLUMNS")) * int(sizes["GROUPS"])
    return (ceil_div(height, int(sizes["BLOCK"])) * turns, runs, _chunks(sizes)), (1, 1, 1)


def depthwise_places(sizes: Sizes, step: tuple[int, int], width: int) -> int:
    """Of one class of pixels, the largest one: rows in `width` pixels at a time."""
    rows, columns = (ceil_div(int(sizes[n]), s)
                     for n, s in zip(("OUT_H", "OUT_W"), step, strict=True))
    return int(sizes["N"]) * rows * ceil_div(columns, width)


def _depthwise(defines: Defines, sizes: Sizes) -> Geometry:
    step = number(defines, "STEP_H"), number(defines, "STEP_W")
    places = depthwise_places(sizes, step, number(defines, "R"))
    blocks = ceil_div(int(sizes["C"]) // number(defines, "V"), int(sizes["VECTORS"]))
    return (ceil_div(places, int(sizes["PLACES"])), blocks, step[0] * step[1]), (1, 1, 1)


def _depthwise3(defines: Defines, sizes: Sizes) -> Geometry:
    pairs = int(sizes["N"]) * ceil_div(int(sizes["OUT_H"]), 2)
    blocks = ceil_div(int(sizes["C"]) // number(defines, "V"), int(sizes["VECTORS"]))
    return (ceil_div(pairs, int(sizes["PAIRS"])), blocks, 1), (1, 1, 1)


def _depthwise_weight(defines: Defines, sizes: Sizes) -> Geometry:
    lines = ceil_div(int(sizes["KH"]), int(sizes["LINES"]))
    blocks = ceil_div(int(sizes["C"]), panel_width(defines))
    return (blocks, lines, _chunks(sizes)), (1, 1, 1)


def _depthwise_weight3(defines: Defines, sizes: Sizes) -> Geometry:
    vectors = ceil_div(int(sizes["C"]), number(defines, "V"))
    return (ceil_div(vectors, int(sizes["BLOCKS"])), 1, _chunks(sizes)), (1, 1, 1)


PACK = Kernel("conv_pack", ("r", "w"), _pack,
              _ints("LANES", "B", "PANELS", "RUN", "ST", "SG", "SL", "SB"), {"W": 8, "TURNED": 0})
TILE = Kernel("conv_tile", ("r", "r", "r", "w"), _panel, _ints(*_SOURCE, *_STEPS, *_TAPS),
              {**_TILE, **EPILOGUE, "DOT": 0, "PB": 0, "IMAGES_FIRST": 0},
              space={"R": (1, 2, 4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (1, 4, 8, 16)})
WEIGHT = Kernel("conv_weight", ("r", "r", "w"), _weight_panel,
                _ints(*_SOURCE, *_STRIDE, *_TAPS, "ROWS", "SOME", "BLOCK"), {**_TILE, "FEW": 0},
                space={"R": (1, 2, 4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (1, 4, 8, 16)})
WEIGHT_PACKED = Kernel("conv_weight_packed", ("r", "r", "w"), _weight_block,
                       _ints(*_SOURCE, *_STRIDE, *_TAPS, "ROWS", "BLOCK", "TAPS"),
                       {"R": 4, "NV": 2, "V": 4, "TURNED": 0, "COPIED": 1, "PIXELS": 16,
                        "COLUMNS": 16, "SUMS": 768},
                       space={"R": (4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (4, 8, 16)})
DEPTHWISE = Kernel("depthwise", ("r", "r", "w"), _depthwise,
                   _ints("N", "C", *_IMAGES[4:], *_STEPS[:2], *_TAPS, "PLACES", "VECTORS"),
                   {"R": 8, "V": 4, "STEP_H": 1, "STEP_W": 1, **EPILOGUE},
                   space={"R": (4, 8), "V": (4, 8, 16)})
DEPTHWISE3 = Kernel("depthwise3", ("r", "r", "w"), _depthwise3,
                    _ints("N", "C", *_IMAGES[4:8], *_TAPS[:2], "PAIRS", "VECTORS"),
                    {"V": 4, "STEP": 1, "TURNED": 0, **EPILOGUE}, space={"V": (4, 8, 16)})
DEPTHWISE_WEIGHT = Kernel("depthwise_weight", ("r", "r", "w"), _depthwise_weight,
                          _ints("N", "C", *_IMAGES[4:], *_STRIDE, *_TAPS[:3], "ROWS", "LINES",
                                "FAR"),
                          {"V": 4, "NV": 1, "TAPS": 1, "DOWN": 1, "SUMS": 1, "AWAY": 1},
                          space={"NV": (1, 2, 3, 4), "V": (4, 8, 16)})
DEPTHWISE_WEIGHT3 = Kernel("depthwise_weight3", ("r", "r", "w"), _depthwise_weight3,
                           _ints("N", "C", *_IMAGES[4:8], *_TAPS[:2], "ROWS", "SOME",
                                "BLOCKS"),
                           {"V": 4, "STEP": 1, "FAR": 0}, space={"V": (4, 8, 16)})
KERNELS = (PACK, TILE, WEIGHT, WEIGHT_PACKED, DEPTHWISE, DEPTHWISE3, DEPTHWISE_WEIGHT,
           DEPTHWISE_WEIGHT3)
