"""Which tile of a matrix product suits a shape on a device; the numbers are in `tuned/gemm.json`.

A new device is a new entry there. The choice is arithmetic on the entry's figures: a launch does
`groups` work-groups of `area` outputs at a tile's `rate`, and loses about one group for each
compute unit when the last ones run out: the cheapest tile has the smallest (groups + units) area /
rate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.gemm_specs import DOT_COLUMNS, tile_width
from handtorch.kernels.spec import ceil_div


@dataclass(frozen=True)
class Tile:
    """What one work-group of a product computes: `rows` x `columns` outputs."""

    defines: tuple[tuple[str, int], ...]
    item_columns: int                       # what one item computes, and the least N it can take
    rows: int
    columns: int
    items: int
    rate: float

    def cost(self, m: int, n: int, units: int) -> float:
        """Time in outputs of the best tile: padded work and idle units included."""
        groups = ceil_div(m, self.rows) * ceil_div(n, self.columns)
        return (groups + units) * self.rows * self.columns / self.rate


@dataclass(frozen=True)
class Tuning:
    """One entry of the table."""

    kinds: tuple[str, ...]
    float_width: int
    pack_rows: int
    pack_rows_turned: int
    pack_bytes: int
    pack: Mapping[str, int]                 # macros of pack_b
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
    return Tuning(tuple(entry["kinds"]), entry["float_width"], entry["pack_rows"],
                  entry["pack_rows_turned"], entry["pack_bytes"], MappingProxyType(entry["pack"]),
                  tuple(map(_tile, entry["tiles"])), tuple(map(_tile, entry["dots"])))


def _tile(entry: dict[str, Any]) -> Tile:
    defines = {"WGX": 1, "WGY": 1, **entry}
    rate = float(defines.pop("rate"))
    is_dot = "NV" not in defines
    wide = DOT_COLUMNS if is_dot else tile_width(defines)
    return Tile(tuple(sorted(defines.items())), 1 if is_dot else wide,
                defines["R"] * defines["WGX"], wide * defines["WGY"],
                defines["WGX"] * defines["WGY"], rate)


def tuning_for(spec: DeviceSpec) -> Tuning:
    """The entry of this kind of device with the widest vectors that it has."""
    fitting = [t for t in table() if spec.kind in t.kinds and t.float_width <= spec.float_width]
    assert fitting, f"tuned/gemm.json has no entry for a {spec.kind} of width 1"
    return max(fitting, key=lambda t: t.float_width)


def row_groups(tile: Tile, m: int, n: int, spec: DeviceSpec) -> dict[str, int]:
    """How many row tiles make a work-group: more than the tile says, where the platform gains."""
    for entry in _tuned()["groups"]:
        rows, columns = tile.rows * entry["WGX"], tile.columns
        if (entry["platform"] == spec.platform and tile.items == 1
                and ceil_div(m, rows) * ceil_div(n, columns) >= entry["least"]):
            return {"WGX": entry["WGX"]}
    return {}


def best_tile(tiles: Iterable[Tile], m: int, n: int, spec: DeviceSpec) -> Tile:
    """The cheapest tile that fits the shape and the device's work-groups; the first of equals."""
    fitting = [t for t in tiles if t.item_columns <= n and t.items <= spec.max_work_group]
    assert fitting, "each entry of tuned/gemm.json ends with a tile of one column and one item"
    return min(fitting, key=lambda t: t.cost(m, n, spec.compute_units))
