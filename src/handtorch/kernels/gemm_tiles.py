"""Which variant of a matrix product suits a shape on a device.

What `handtorch tune` measured on this device and driver comes first (`variant.tuned_variant`). Else
the table `tuned/gemm.json` decides: a new device is a new entry there, and the choice is arithmetic
on its figures. A launch does `groups` work-groups of `area` outputs at a tile's `rate`, and loses
about one group for each compute unit when the last ones run out: the cheapest tile has the smallest
(groups + units) area / rate. Batched products and convolutions take their tiles from it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import sqrt
from types import MappingProxyType
from typing import Any, Literal

from handtorch.errors import BadInput
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.gemm_specs import DOT_COLUMNS, tile_width
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import MOST, Problem, Variant, none_right

# B as it is; B packed into panels first; B transposed and read as it is.
Form = Literal["register", "packed", "dot"]


@dataclass(frozen=True)
class Product(Problem):
    """C [m, n] = op(A) op(B) with k summed; op transposes where `ta` or `tb` says so."""

    m: int
    n: int
    k: int
    ta: bool = False
    tb: bool = False

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {'nt'[self.ta]}{'nt'[self.tb]}"

    def forms(self) -> tuple[Form, ...]:
        """Which kernels can do it at all; the first is the one that packs nothing."""
        if not self.tb:
            return ("register", "packed")
        return ("packed",) if self.ta else ("dot", "packed")

    def sizes(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    def kind(self) -> Hashable:
        return self.ta, self.tb

    def takes(self, variant: Variant) -> bool:
        return variant.form == "dot" or tile_width(dict(variant.defines)) <= self.n

    def table_variant(self, spec: DeviceSpec) -> Variant:
        return table_variant(self, spec)

    @classmethod
    def read(cls, text: str) -> Product | None:
        return _product(text)


@cache
def _product(text: str) -> Product | None:
    found = re.fullmatch(r"(\d{1,10})x(\d{1,10})x(\d{1,10})(?: ([nt])([nt]))?", text, re.ASCII)
    m, n, k = map(int, found.groups()[:3]) if found else (0, 0, 0)
    if not found or not all(1 <= size <= MOST for size in (m, n, k)):
        return None
    return Product(m, n, k, found[4] == "t", found[5] == "t")


def as_product(text: str) -> Product:
    """`32x256x784 nt`: rows, columns and depth, and which operands are transposed (none: nn)."""
    found = _product(text)
    if found is None:
        raise BadInput(f"product {text!r}", why="it is not rows x columns x depth of at least 1, "
                       "then which operands are transposed", fix="32x256x784 nt, for example")
    return found


SHORT = 64                                  # a product of less depth is short


@dataclass(frozen=True)
class Tile:
    """What one work-group of a product computes: `rows` x `columns` outputs."""

    defines: tuple[tuple[str, int], ...]
    item_columns: int                       # what one item computes, and the least N it can take
    rows: int
    columns: int
    items: int
    rate: float
    short_rate: float                       # where so little is summed that stores count

    def cost(self, m: int, n: int, units: int, k: int = SHORT) -> float:
        """Time in outputs of the best tile: padded work and idle units included."""
        groups = ceil_div(m, self.rows) * ceil_div(n, self.columns)
        rate = self.rate if k >= SHORT else self.short_rate
        return (groups + units) * self.rows * self.columns / rate


@dataclass(frozen=True)
class Tuning:
    """One entry of the table."""

    kinds: tuple[str, ...]
    match: tuple[str, ...]                  # parts of what a device says of itself; none: all fit
    float_width: int
    pack_rows: int
    pack_rows_turned: int
    pack_bytes: int
    split: int                              # depth of a part of a long product; 0: never in parts
    pack: Mapping[str, int]                 # macros of pack_b
    groups: tuple[tuple[int, int], ...]     # work-groups worth trying when tuning
    tiles: tuple[Tile, ...]
    dots: tuple[Tile, ...]


@cache
def _tuned() -> dict[str, Any]:
    text = (files("handtorch.kernels") / "tuned" / "gemm.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def table() -> tuple[Tuning, ...]:
    return tuple(_tuning(entry) for entry in _tuned()["devices"])


def _tuning(entry: dict[str, Any]) -> Tuning:
    return Tuning(tuple(entry["kinds"]), tuple(entry.get("match", ())), entry["float_width"],
                  entry["pack_rows"], entry["pack_rows_turned"], entry["pack_bytes"],
                  entry.get("split", 0),
                  MappingProxyType(entry["pack"]), tuple((x, y) for x, y in entry["try_groups"]),
                  tuple(map(_tile, entry["tiles"])), tuple(map(_tile, entry["dots"])))


def _tile(entry: dict[str, Any]) -> Tile:
    defines = {"WGX": 1, "WGY": 1, **entry}
    rate = float(defines.pop("rate"))
    short_rate = float(defines.pop("short", rate))
    is_dot = "NV" not in defines
    wide = DOT_COLUMNS if is_dot else tile_width(defines)
    return Tile(tuple(sorted(defines.items())), 1 if is_dot else wide,
                defines["R"] * defines["WGX"], wide * defines["WGY"],
                defines["WGX"] * defines["WGY"], rate, short_rate)


def tuning_for(spec: DeviceSpec) -> Tuning:
    """The first entry that names this device, else that of its kind with the widest vectors it
    has; without the tiles that are wrong on this driver."""
    told = f"{spec.vendor} {spec.platform} {spec.name} {spec.device_version}".lower()
    fitting = [t for t in table() if spec.kind in t.kinds and t.float_width <= spec.float_width]
    named = [t for t in fitting if any(part in told for part in t.match)]
    fitting = named[:1] or [t for t in fitting if not t.match]
    assert fitting, f"tuned/gemm.json has no entry for a {spec.kind} of width 1"
    found = max(fitting, key=lambda t: t.float_width)
    return _without_wrong(found, spec) if spec.avoid else found


def _without_wrong(tuning: Tuning, spec: DeviceSpec) -> Tuning:
    def right(tile: Tile, *forms: Form) -> bool:
        return not any(str(Variant(form, tile.defines)) in spec.avoid for form in forms)
    tiles = tuple(t for t in tuning.tiles if right(t, "register", "packed"))
    dots = tuple(t for t in tuning.dots if right(t, "dot"))
    for name, left in (("gemm_register", tiles), ("gemm_dot", dots)):
        if not any(t.items == t.item_columns == 1 for t in left):
            raise none_right(f"no tile of {name} for every shape", spec)
    return replace(tuning, tiles=tiles, dots=dots)


def row_groups(tile: Tile, m: int, n: int, spec: DeviceSpec) -> dict[str, int]:
    """How many row tiles make a work-group: more than the tile says, where the platform gains."""
    for entry in _tuned()["groups"]:
        rows, columns = tile.rows * entry["WGX"], tile.columns
        if (entry["platform"] == spec.platform and tile.items == 1
                and ceil_div(m, rows) * ceil_div(n, columns) >= entry["least"]):
            return {"WGX": entry["WGX"]}
    return {}


def tiles_in_a_group(rows: int, columns: int, flops: int, spec: DeviceSpec) -> dict[str, int]:
    """How many of a launch's tiles, `rows` x `columns` of them, make a work-group, where the
    platform gains.

    A group costs its start, and the last ones leave units idle: the best number of groups grows
    with the root of the work. Rows come first, because row tiles share what they read of B."""
    for entry in _tuned()["work_groups"]:
        if entry["platform"] == spec.platform:
            least = max(spec.compute_units, sqrt(flops / entry["flops"]))
            x = _doubled(rows, columns, least, entry["WGX"])
            return {"WGX": x, "WGY": _doubled(columns, ceil_div(rows, x), least, entry["WGY"])}
    return {}


def _doubled(tiles: int, others: int, least: float, most: int) -> int:
    """The largest power of two, up to `most`, of `tiles` in a group that leaves `least` groups."""
    size = 1
    while 2 * size <= min(most, tiles) and ceil_div(tiles, 2 * size) * others >= least:
        size *= 2
    return size


def best_tile(tiles: Iterable[Tile], m: int, n: int, spec: DeviceSpec, k: int = SHORT) -> Tile:
    """The cheapest tile that fits the shape and the device's work-groups; the first of equals."""
    fitting = [t for t in tiles if t.item_columns <= n and t.items <= spec.max_work_group]
    assert fitting, "each entry of tuned/gemm.json ends with a tile of one column and one item"
    return min(fitting, key=lambda t: t.cost(m, n, spec.compute_units, k))


def table_variant(product: Product, spec: DeviceSpec, form: Form | None = None) -> Variant:
    """What the table alone says; `form` overrides its choice of kernels."""
    tuning = tuning_for(spec)
    form = form or _form(tuning, product)
    tile = best_tile(tuning.dots if form == "dot" else tuning.tiles, product.m, product.n, spec,
                     product.k)
    alone = Variant(form, tile.defines)
    if tile.items > 1:
        return alone
    more = tiles_in_a_group(ceil_div(product.m, tile.rows), ceil_div(product.n, tile.columns),
                            2 * product.m * product.n * product.k, spec)
    grouped = Variant.of(form, {**dict(tile.defines), **more})
    return alone if str(grouped) in spec.avoid else grouped


def split_depth(product: Product, spec: DeviceSpec) -> int:
    """How deep the parts are in which A^T B is summed up, 0 for all at once.

    Where K is long, A is read column by column from far away, once for each panel of B; a part of
    it stays in the cache. What the parts leave, to be added, must be little beside A and B."""
    depth, m, n = tuning_for(spec).split, product.m, product.n
    pays = product.ta and not product.tb and product.k >= 4 * depth
    return depth if depth and pays and 4 * m * n <= depth * (m + n) else 0


def _form(tuning: Tuning, product: Product) -> Form:
    """Pack where enough rows share the packed B, and B does not stay in the cache as it is."""
    unpacked, *_ = product.forms()
    if not product.tb and 4 * product.k * product.n < tuning.pack_bytes:
        return unpacked
    least = tuning.pack_rows_turned if product.tb else tuning.pack_rows
    return unpacked if product.m < least else "packed"
