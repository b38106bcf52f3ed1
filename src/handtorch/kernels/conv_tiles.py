"""Which variant of a pass of a convolution suits its sizes on a device.

Tiles are those of the products (`tuned/gemm.json`); the arithmetic here says which of them, and how
the work is shared out over items. What was tuned comes first (`variant.tuned_variant`)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.conv_shapes import (
    SOME_PIXELS,
    Conv,
    Pair,
    forward_sizes,
    grad_input_sizes,
    grad_weight_sizes,
    inside,
    pixels_of_a_class,
)
from handtorch.kernels.conv_specs import panel_width
from handtorch.kernels.gemm_tiles import Tile, row_groups, tiles_in_a_group, tuning_for
from handtorch.kernels.spec import ceil_div, dividing_width, round_up
from handtorch.kernels.variant import MOST, Problem, Variant, first_right
from handtorch.kernels.winograd import is_right, is_worth, takes, tiles_of

Op = Literal["conv", "conv_grad_input", "conv_grad_weight"]
DEPTHWISE_PIXELS = 8              # of a row that go at a time, for one vector of channels
DEPTHWISE_ITEMS = 64              # on a CPU, about
DEPTHWISE_SUMS = 18               # vectors of sums in registers, of a weight gradient; half as many
                                  # where there are half as many registers
DEPTHWISE_SHARES = 8              # of a weight gradient, for each core
DEPTHWISE_CHUNK_PIXELS = 64       # at least, of dy in a partial sum: there is less to add up then
DEPTHWISE3_CHUNK_PIXELS = 4096    # at most, of dy in an item of 3 x 3 taps
DEPTHWISE3_SUM_PIXELS = 512       # about, in a sum in registers: each is added to the last
DEPTHWISE3_ITEMS = 8              # for each core
DEPTHWISE3_SHARES = 4             # for each core: an item more takes some 0.1 us
LEAST_ROWS = {(1, 1): 5, (2, 2): 8}     # of dy by stride: in shorter ones pairs of rows do not pay
MOST_TAPS = 8                     # side by side, whose sums are in registers; as many lines
MOST_SUMS = 16                    # of taps that unroll.h can name
CHUNK_PIXELS = 1024               # at least, of dy in a partial sum of a weight
LEAST_ITEMS = {"cpu": 64, "gpu": 4096}      # of a weight gradient, if it can be shared out that far
FEW_OUTER = 16                    # for which a vector of them is not worth it
MOSTLY_INSIDE = 0.9               # of the taps: with fewer the others are worth leaving out
FEW_CHANNELS = 16                 # of a tap or of dy: with fewer conv_weight is better
FEW_COLUMNS = 32                  # of dy: with fewer the product is turned
FAR_BYTES = 1024                  # a multiple of it between pixels: few rest in a near cache
MANY_ROWS = 128                   # that meet a panel: with fewer its copy does not pay
PACKED_ITEMS = 8                  # for each compute unit, so that the last ones end together
GOOD_RATE = 0.7                   # of the best tile: each further tile is a kernel to compile


@dataclass(frozen=True)
class ConvPass(Problem):
    """One of the three operations of a convolution."""

    op: Op
    conv: Conv

    def __str__(self) -> str:
        """`conv 16x32x32x64 128 3x3 s2x2 p1x1`: op, pictures x, channels of y, kernel; then stride,
        padding, dilation, groups and size of y, each where it is not the usual one."""
        c = self.conv
        parts = [self.op, _times(c.n, *c.x, c.groups * c.inner), str(c.groups * c.outer),
                 _times(*c.kernel)]
        usual = ((1, 1), (0, 0), (1, 1))
        for letter, pair, one in zip("spd", (c.stride, c.padding, c.dilation), usual, strict=True):
            parts += [f"{letter}{_times(*pair)}"] if pair != one else []
        parts += [f"g{c.groups}"] if c.groups > 1 else []
        parts += [f"y{_times(*c.y)}"] if c.y != _usual_y(c.x, c) else []
        return " ".join(parts)

    @classmethod
    def read(cls, text: str) -> ConvPass | None:
        return _read(text)

    def forms(self) -> tuple[str, ...]:
        if self.op == "conv_grad_weight":
            if self.conv.is_depthwise:
                near = ("depthwise_weight3",) if self.conv.has_near_taps else ()
                return ("depthwise_weight", *near)
            forms = ("conv_weight", "conv_weight_packed")
            return (*forms, "conv_weight_winograd") if is_right(self.conv, self.op) else forms
        if self.conv.is_depthwise:
            direct = self.op == "conv" or self.conv.stride == (1, 1)
            return ("depthwise", *(("depthwise3",) if direct and self.conv.has_near_taps else ()))
        forms = ("conv_direct" if self.op == "conv" else "conv_dot", "conv_packed")
        return (*forms, "conv_winograd") if is_right(self.conv, self.op) else forms

    def takes(self, variant: Variant) -> bool:
        macros, c = dict(variant.defines), self.conv
        match variant.form:
            case "conv_direct":
                return panel_width(macros) <= c.outer
            case "conv_dot":                # the gradient of x: its channels are inner
                return c.outer % macros["V"] == 0 and macros["NV"] <= c.inner
            case "conv_winograd" | "conv_weight_winograd":
                return takes(c, self.op, macros)
            case "conv_weight":
                return panel_width(macros) <= c.outer
            case "conv_weight_packed":
                rows, columns = _sides(c.for_grad_weight(), macros["TURNED"])
                return macros["R"] <= rows and (
                    macros["COPIED"] == 1 or panel_width(macros) <= columns)
            case "depthwise" | "depthwise3" | "depthwise_weight3":
                return macros["V"] <= c.groups
            case "depthwise_weight":
                return (panel_width(macros) <= c.groups and c.kernel[1] % macros["TAPS"] == 0
                        and macros["DOWN"] * macros["TAPS"] <= MOST_SUMS)
        return True

    def kind(self) -> Hashable:
        c = self.conv
        return self.op, c.is_depthwise, c.has_few_inner, c.kernel, c.stride, c.dilation

    def sizes(self) -> tuple[int, ...]:
        return (self.conv.n, self.conv.groups, self.conv.inner, self.conv.outer, *self.conv.y)

    def launch_sizes(self) -> dict[str, int]:
        """What conv_tile is told."""
        return (forward_sizes if self.op == "conv" else grad_input_sizes)(self.conv)

    def table_variant(self, spec: DeviceSpec) -> Variant:
        return first_right(self.ranked(spec), self, spec)

    def ranked(self, spec: DeviceSpec) -> Iterator[Variant]:
        """What the tables know, the best first; some may not fit."""
        ranked = {"conv_weight": _weights, "depthwise": _depthwise,
                  "depthwise_weight": _depthwise_weights}.get(self.forms()[0], _sliding)
        return ranked(self, spec)


def _times(*numbers: int) -> str:
    return "x".join(map(str, numbers))


def _usual_y(x: Pair, c: Conv) -> Pair:
    """How large y is unless something was left out."""
    height, width = ((s + 2 * p - d * (k - 1) - 1) // step + 1 for s, p, d, k, step in
                     zip(x, c.padding, c.dilation, c.kernel, c.stride, strict=True))
    return height, width


_N = r"(\d{1,10})"
_TEXT = re.compile(rf"({'|'.join(get_args(Op))}) {_N}x{_N}x{_N}x{_N} {_N} {_N}x{_N}"
                   + "".join(rf"(?: {letter}{_N}x{_N})?" for letter in "spd")
                   + rf"(?: g{_N})?(?: y{_N}x{_N})?", re.ASCII)


@cache
def _read(text: str) -> ConvPass | None:
    found = _TEXT.fullmatch(text)
    if not found:
        return None
    usual = (*[0] * 7, 1, 1, 0, 0, 1, 1, 1, 0, 0)       # the first seven are always told
    op, *rest = found.groups()
    told = [one if n is None else int(n) for n, one in zip(rest, usual, strict=True)]
    n, h, w, channels, outer, kh, kw, sh, sw, ph, pw, dh, dw, groups, *y = told
    if not all(1 <= size <= MOST for size in (
            n * h * w, channels, outer, kh, kw, sh, sw, dh, dw, groups)) or max(ph, pw) > MOST:
        return None
    c = Conv(n, groups, channels // groups, outer // groups, (h, w), (h, w), (kh, kw), (sh, sw),
             (ph, pw), (dh, dw))
    most = _usual_y(c.x, c)
    size = (y[0], y[1]) if y[0] else most
    if (c.inner * groups != channels or c.outer * groups != outer or channels < groups
            or outer < groups or not all(1 <= s <= m for s, m in zip(size, most, strict=True))):
        return None
    known: dict[str, Op] = {name: name for name in get_args(Op)}
    return ConvPass(known[op], Conv(n, groups, c.inner, c.outer, c.x, size, c.kernel, c.stride,
                                    c.padding, c.dilation))


def _sliding(problem: ConvPass, spec: DeviceSpec) -> Iterator[Variant]:
    """For conv_tile: dot products where panels of w are not worth it, else the cheapest good tile,
    its row tiles in groups where the platform gains; then what is left if that has failed."""
    sizes, tuning = problem.launch_sizes(), tuning_for(spec)
    pixels, outer = pixels_of_a_class(sizes), sizes["OUTER"]
    share, small = inside(sizes), _is_direct(sizes, pixels, spec)
    mostly = share >= MOSTLY_INSIDE
    if "conv_winograd" in problem.forms() and is_worth(sizes, 1.0 if mostly else share):
        yield from _winograd("conv_winograd", tiles_of(sizes), sizes["OUTER"], spec)

    def made(form: str, macros: dict[str, int]) -> Iterator[Variant]:
        first = int(not mostly and sizes["N"] > macros["R"])
        macros = {k: v for k, v in macros.items() if k != "KU"}
        yield Variant.of(form, {**macros, "IMAGES_FIRST": first})
        yield Variant.of(form, {**macros, "IMAGES_FIRST": 1 - first})
    if problem.op != "conv" and (outer < FEW_OUTER or pixels < tuning.pack_rows):
        flops = 2 * pixels * outer * sizes["INNER"] * sizes["KH"] * sizes["KW"]
        for tile in tuning.dots:
            macros = {**dict(tile.defines), "NV": min(4, outer)}
            more = tiles_in_a_group(ceil_div(pixels, macros["R"]),
                                    ceil_div(outer, macros["NV"]), flops, spec)
            yield from made("conv_dot", macros | more)
            yield from made("conv_dot", macros)

    def cost(tile: Tile) -> float:
        return tile.cost(pixels, outer, spec.compute_units)
    good = [t for t in tuning.tiles if t.rate >= GOOD_RATE]
    for tile in (*sorted(good, key=cost), *sorted(tuning.tiles, key=cost)):
        macros = dict(tile.defines)
        direct = problem.op == "conv" and panel_width(macros) <= outer and small
        for form in ("conv_direct", "conv_packed") if direct else ("conv_packed", "conv_direct"):
            yield from made(form, macros | row_groups(tile, pixels, outer, spec))
            yield from made(form, macros)


def _winograd(form: str, rows: int, columns: int, spec: DeviceSpec) -> Iterator[Variant]:
    """With the cheapest good tile, on what has caches."""
    tiles = tuning_for(spec).tiles if spec.kind == "cpu" else ()
    for tile in sorted(tiles, key=lambda t: t.cost(rows, columns, spec.compute_units)):
        if tile.rate >= GOOD_RATE:
            macros = dict(tile.defines)
            yield Variant.of(form, {k: macros[k] for k in ("NV", "R", "V")})


def _is_direct(sizes: dict[str, int], pixels: int, spec: DeviceSpec) -> bool:
    """Whether a weight is read as it lies: as a product's operand is, see gemm_tiles, but with half
    as many pixels. On 49 a packed one of 4 to 9 MB gave 1.2 to 1.5 times the rate."""
    tuning = tuning_for(spec)
    nbytes = 4 * sizes["KH"] * sizes["KW"] * sizes["INNER"] * sizes["OUTER"] * sizes["GROUPS"]
    return nbytes < tuning.pack_bytes or 2 * pixels < tuning.pack_rows


def _weights(problem: ConvPass, spec: DeviceSpec) -> Iterator[Variant]:
    """On a CPU panels rest in its caches, unless a tap has few channels. As dy lies a tile is no
    wider than its rows, and the rows of a part rest in the cache."""
    c = problem.conv.for_grad_weight()
    if "conv_weight_winograd" in problem.forms() and is_worth(
            grad_weight_sizes(c), inside(forward_sizes(c))):
        yield from _winograd("conv_weight_winograd", c.inner, c.outer, spec)
    if spec.kind == "cpu" and (_is_turned(c) or min(c.inner, c.outer) >= FEW_CHANNELS):
        yield from _packed_weights(c, spec)
    share = weight_share("conv_weight", c, spec)

    def cost(tile: Tile) -> float:
        return tile.cost(c.inner, c.outer, spec.compute_units)
    for tile in sorted(tuning_for(spec).tiles, key=cost):
        macros = {k: v for k, v in tile.defines if k != "KU"}
        yield Variant.of("conv_weight", macros | share)


def weight_share(form: str, c: Conv, spec: DeviceSpec) -> dict[str, int]:
    """How a weight gradient of that form is shared out, unless something better was measured."""
    if form == "conv_weight_packed":
        turned, far = _is_turned(c), 4 * c.groups * c.outer % FAR_BYTES == 0
        return {"CHUNK": CHUNK_PIXELS, "ITEMS": PACKED_ITEMS * spec.compute_units,
                "COPIED": int(far and c.inner >= MANY_ROWS and not turned), "TURNED": int(turned)}
    return {"CHUNK": CHUNK_PIXELS, "ITEMS": least_items(spec),
            "SOME": SOME_PIXELS if spec.kind == "cpu" else 0}


def _is_turned(c: Conv) -> bool:
    """Few channels of dy are rows of the product: as its columns they would leave lanes idle."""
    return c.outer < FEW_COLUMNS <= c.inner


def _sides(c: Conv, turned: int) -> Pair:
    """Rows and columns of a weight gradient as a product."""
    return (c.outer, c.inner) if turned else (c.inner, c.outer)


def _packed_weights(c: Conv, spec: DeviceSpec) -> Iterator[Variant]:
    share = weight_share("conv_weight_packed", c, spec)
    rows, columns = _sides(c, share["TURNED"])
    for tile in sorted(tuning_for(spec).tiles, key=lambda t: t.cost(rows, columns, 0)):
        macros = {k: v for k, v in tile.defines if k in ("NV", "R", "V")}
        if rows < macros["R"]:
            macros["R"] = max(r for r in (1, 2, 3, 4, 6, 8) if r <= rows)
        yield Variant.of("conv_weight_packed", macros | share)


def least_items(spec: DeviceSpec) -> int:
    return LEAST_ITEMS.get(spec.kind, LEAST_ITEMS["gpu"])


def _depthwise(problem: ConvPass, spec: DeviceSpec) -> Iterator[Variant]:
    c = problem.conv if problem.op == "conv" else problem.conv.simplest()
    columns = c.y[1] if problem.op == "conv" else ceil_div(c.x[1], c.stride[1])
    items = DEPTHWISE_ITEMS if spec.kind == "cpu" else 0
    wide = 16 if spec.kind == "cpu" else dividing_width(c.groups)
    usual = DEPTHWISE_PIXELS if columns > 4 else 4
    near = [Variant.of("depthwise3", {"ITEMS": DEPTHWISE3_ITEMS * spec.compute_units, "V": width})
            for width in (wide, 8, 4, 2, 1)]
    yield from near if spec.kind == "cpu" else ()
    for rows in (usual, 4, 8, 1):
        for width in (wide, 8, 4, 2, 1):
            yield Variant.of("depthwise", {"ITEMS": items, "R": rows, "V": width})
    yield from near


def _depthwise_weights(problem: ConvPass, spec: DeviceSpec) -> Iterator[Variant]:
    """The widest blocks of channels of which an eighth at most is done twice."""
    c, whole = problem.conv, spec.kind == "cpu"
    widths = (min(16, spec.float_width) if whole else dividing_width(c.groups), 8, 4, 2, 1)
    sums = DEPTHWISE_SUMS if whole and spec.float_width >= 16 else DEPTHWISE_SUMS // 2
    items = DEPTHWISE_SHARES * spec.compute_units if whole else least_items(spec)
    near = [Variant.of("depthwise_weight3", {"CHUNK": DEPTHWISE3_CHUNK_PIXELS,
                                             "ITEMS": DEPTHWISE3_SHARES * spec.compute_units,
                                             "V": width}) for width in widths]
    yield from near if whole and c.y[1] >= LEAST_ROWS.get(c.stride, c.y[1] + 1) else ()
    for width in widths:
        for taps in (t for t in range(MOST_TAPS, 0, -1) if c.kernel[1] % t == 0):
            # Two vectors of channels side by side are worth more than another line of the kernel.
            down = max(1, min(c.kernel[0], sums // (2 * taps), MOST_TAPS)) if whole else 1
            most = min(4, max(1, sums // (down * taps))) if whole else 1
            for many in sorted(range(most, 0, -1),
                               key=lambda n: 8 * round_up(c.groups, n * width) > 9 * c.groups):
                yield Variant.of("depthwise_weight", {
                    "CHUNK": DEPTHWISE_CHUNK_PIXELS, "DOWN": down, "ITEMS": items,
                    "LINES": 0 if whole else 1, "NV": many, "TAPS": taps, "V": width})
    yield from near
