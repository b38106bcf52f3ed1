"""Which variant of a matrix product suits a shape on a device.

What `handtorch tune` measured on this device and driver comes first (`tuned_variant`); it is handed
down in `DeviceSpec.tuned`. Else the table `tuned/gemm.json` decides: a new device is a new entry
there, and the choice is arithmetic on its figures. A launch does `groups` work-groups of `area`
outputs at a tile's `rate`, and loses about one group for each compute unit when the last ones run
out: the cheapest tile has the smallest (groups + units) area / rate. A variant in
`DeviceSpec.avoid` is chosen by neither.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import log2, sqrt
from types import MappingProxyType
from typing import Any, Literal

from handtorch.errors import BadInput, KernelError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.gemm_specs import DOT_COLUMNS, tile_width
from handtorch.kernels.spec import ceil_div

# B as it is; B packed into panels first; B transposed and read as it is.
Form = Literal["register", "packed", "dot"]


@dataclass(frozen=True)
class Product:
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

    def is_like(self, other: Product) -> bool:
        """Of the same class: equally transposed, and each size up to the same power of two."""
        return (self.ta, self.tb) == (other.ta, other.tb) and all(
            (a - 1).bit_length() == (b - 1).bit_length()
            for a, b in zip(self.sizes(), other.sizes(), strict=True))

    def distance(self, other: Product) -> float:
        return sum(abs(log2(a / b)) for a, b in zip(self.sizes(), other.sizes(), strict=True))


@dataclass(frozen=True)
class Variant:
    """A form and the macros of its kernel; as text, what results are kept and handed on in."""

    form: Form
    defines: tuple[tuple[str, int], ...]    # sorted; all of the form's macros

    @classmethod
    def of(cls, form: Form, defines: Mapping[str, int]) -> Variant:
        return cls(form, tuple(sorted(defines.items())))

    def __str__(self) -> str:
        return " ".join([self.form, *(f"{k}{v}" for k, v in self.defines)])

    def fits(self, product: Product, spec: DeviceSpec) -> bool:
        """Whether it computes this product, within the device's limits."""
        macros = dict(self.defines)
        wide = 1 if self.form == "dot" else tile_width(macros)
        group = macros["WGX"], macros["WGY"]
        return (self.form in product.forms() and wide <= product.n
                and group[0] * group[1] <= spec.max_work_group
                and all(g <= most for g, most in zip(group, spec.max_work_items, strict=False)))


# What the kernels can be built with: unroll.h's limits, OpenCL's vectors, any phone's groups.
_TILE: dict[str, Container[int]] = {
    "KU": (1, 2, 4), "NV": range(1, 9), "R": range(1, 17), "V": (1, 2, 4, 8, 16),
    "WGX": range(1, 1025), "WGY": range(1, 1025)}
_MACROS: dict[Form, dict[str, Container[int]]] = {
    "register": _TILE, "packed": _TILE,
    "dot": {"R": range(1, 17), "V": (4, 8, 16), "WGX": _TILE["WGX"], "WGY": _TILE["WGY"]}}
_MOST = (1 << 31) - 1                       # the kernels' sizes are int


@cache
def as_product(text: str) -> Product:
    """`32x256x784 nt`: rows, columns and depth, and which operands are transposed (none: nn)."""
    found = re.fullmatch(r"(\d{1,10})x(\d{1,10})x(\d{1,10})(?: ([nt])([nt]))?", text, re.ASCII)
    m, n, k = map(int, found.groups()[:3]) if found else (0, 0, 0)
    if not found or not all(1 <= size <= _MOST for size in (m, n, k)):
        raise BadInput(f"product {text!r}", why="it is not rows x columns x depth of at least 1, "
                       "then which operands are transposed", fix="32x256x784 nt, for example")
    return Product(m, n, k, found[4] == "t", found[5] == "t")


@cache
def as_variant(text: str) -> Variant:
    """What `str` of a Variant gave; refuses macros that its kernel lacks or is never built with."""
    form, *words = text.split(" ")
    pairs = [re.fullmatch(r"([A-Z]+)([1-9]\d{0,3})", word, re.ASCII) for word in words]
    for known, macros in _MACROS.items():
        if form == known and all(pairs):
            defines = {p[1]: int(p[2]) for p in pairs if p}
            made = Variant.of(known, defines)
            if (defines.keys() == macros.keys() and str(made) == text    # one spelling only
                    and all(v in macros[k] for k, v in defines.items())):
                return made
    raise BadInput(f"variant {text!r}", why="no kernel can be built with that",
                   fix="`handtorch tune` writes the variants there are")


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
            raise KernelError(f"no tile of {name} for every shape is right on {spec.name}",
                              why=f"{len(spec.avoid)} variants failed with driver {spec.driver}",
                              fix="another driver or device; `handtorch tune --fresh` if these "
                                  "failures had another cause")
    return replace(tuning, tiles=tiles, dots=dots)


def tuned_variant(product: Product, spec: DeviceSpec) -> Variant | None:
    """What was measured best on this device for this product, else for the nearest of its class
    whose variant fits; None if there is none, or it has failed meanwhile."""
    found = {as_product(p): as_variant(v) for p, v in spec.tuned if v not in spec.avoid}
    near = [p for p in found if p.is_like(product) and found[p].fits(product, spec)]
    if not near:
        return None
    return found[min(near, key=lambda p: (p.distance(product), str(p)))]


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


def _form(tuning: Tuning, product: Product) -> Form:
    """Pack where enough rows share the packed B, and B does not stay in the cache as it is."""
    unpacked, *_ = product.forms()
    if not product.tb and 4 * product.k * product.n < tuning.pack_bytes:
        return unpacked
    least = tuning.pack_rows_turned if product.tb else tuning.pack_rows
    return unpacked if product.m < least else "packed"


FORMAT, VERSION = "handtorch tuned products", 1
MOST_BYTES = 1 << 24                        # of a file; a full search leaves a third of that


@cache
def kernels_key() -> str:
    """Changes with the text of any kernel that a variant is built from."""
    names = ("gemm_register.cl", "gemm_dot.cl", "pack_b.cl", "unroll.h")
    text = "".join((files("handtorch.kernels") / name).read_text() for name in names)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def results_name(spec: DeviceSpec) -> str:
    """The file that holds what was tuned on this device and driver with these kernels."""
    return f"{spec.key}-{kernels_key()}.json"


def whose(spec: DeviceSpec) -> dict[str, str]:
    """What makes results those of this device and driver; `spec.key` is a hash of the same."""
    names = ("platform", "platform_version", "name", "device_version", "driver")
    return {name: str(getattr(spec, name)) for name in names}


def checked_results(what: str, data: bytes, spec: DeviceSpec) -> dict[str, Any]:
    """A file of tuned results as plain values, if all of it can be used on this device.

    `best` then maps products to variants that can compute them, `avoid` lists variants; `trials`
    is looked at by its own reader only. Anything else is refused with the reason."""
    told = _whole(what, data)
    if told.get("kernels") != kernels_key():
        raise BadInput(what, why=f"made for kernels {told.get('kernels')!r}, these are "
                                 f"{kernels_key()!r}",
                       fix="the same version of handtorch, or `handtorch tune` here")
    if told.get("device") != whose(spec):
        theirs = told["device"] if isinstance(told.get("device"), dict) else {}
        raise BadInput(what, why=f"it is of {theirs.get('name')!r}, driver "
                                 f"{theirs.get('driver')!r}; this is {spec.name!r}, driver "
                                 f"{spec.driver!r}",
                       fix="--device, if you have that one; else `handtorch tune` here")
    best, avoid = told.get("best"), told.get("avoid")
    if not isinstance(best, dict) or not isinstance(avoid, list):
        raise damaged(what, "it lacks best or avoid")
    try:
        for product, variant in best.items():
            if not as_variant(str(variant)).fits(as_product(product), spec):
                raise damaged(what, f"{variant} cannot compute {product} here")
        for variant in avoid:
            as_variant(str(variant))
    except BadInput as e:
        raise damaged(what, f"{e.what}: {e.why}" if e.what != what else e.why) from e
    return told


def _whole(what: str, data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError) as e:
        raise damaged(what, "it is cut short or no JSON at all") from e
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise BadInput(what, why="these are no tuned results of handtorch",
                       fix="a file that `handtorch tune --export FILE` wrote")
    version = told.get("version")
    if isinstance(version, int) and version > VERSION:
        raise BadInput(what, why=f"its version is {version}, this handtorch knows up to {VERSION}",
                       fix="update handtorch")
    if version != VERSION or isinstance(version, bool):
        raise damaged(what, f"its version is {version!r}")
    return told


def damaged(what: str, why: str) -> BadInput:
    return BadInput(what, why=why, fix="export it again, or `handtorch tune --fresh` here")
