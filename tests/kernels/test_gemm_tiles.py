"""The table of tiles and the choice among them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.graph.device_spec import GENERIC, KINDS
from handtorch.kernels.gemm_specs import DOT, PACK_B, REGISTER
from handtorch.kernels.gemm_tiles import Tile, best_tile, row_groups, table, tuning_for
from handtorch.kernels.spec import ceil_div

CPU = replace(GENERIC, kind="cpu", float_width=16, max_work_group=4096)


def groups(tile: Tile, m: int, n: int) -> int:
    return ceil_div(m, tile.rows) * ceil_div(n, tile.columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_every_device_has_an_entry_and_any_shape_a_tile(kind: str, width: int) -> None:
    spec = replace(GENERIC, kind=kind, float_width=width, max_work_group=1)
    tuning = tuning_for(spec)
    assert tuning.float_width <= width
    for m, n in ((1, 1), (1, 1000), (1000, 1), (3, 17), (1024, 1024)):
        assert best_tile(tuning.tiles, m, n, spec).item_columns <= n
        assert best_tile(tuning.dots, m, n, spec).items == 1


def test_the_widest_entry_that_fits_is_taken() -> None:
    widths = [tuning_for(replace(CPU, float_width=w)).float_width for w in (1, 4, 8, 16, 32)]
    assert widths == [1, 1, 8, 16, 16]


def test_tiles_hold_macros_their_kernels_know() -> None:
    for tuning in table():
        assert {k for t in tuning.tiles for k, _ in t.defines} <= REGISTER.defaults.keys()
        assert {k for t in tuning.dots for k, _ in t.defines} <= DOT.defaults.keys()
        assert tuning.pack.keys() <= PACK_B.defaults.keys()
        assert max(t.rate for t in tuning.tiles) == 1.0
        assert all(t.items <= 256 for t in (*tuning.tiles, *tuning.dots))   # a phone's limit


def test_large_products_take_the_fastest_tile() -> None:
    tiles = tuning_for(CPU).tiles
    assert best_tile(tiles, 1024, 1024, CPU).rate == 1.0


@pytest.mark.parametrize("m, n", [(32, 256), (256, 256), (128, 128), (784, 256), (512, 512)])
def test_a_launch_has_groups_for_every_core(m: int, n: int) -> None:
    assert groups(best_tile(tuning_for(CPU).tiles, m, n, CPU), m, n) >= 32


def test_more_units_make_smaller_tiles() -> None:
    few, many = CPU, replace(CPU, compute_units=64)
    tiles = tuning_for(CPU).tiles
    assert groups(best_tile(tiles, 128, 128, many), 128, 128) \
        > groups(best_tile(tiles, 128, 128, few), 128, 128)


def test_cost_counts_padding_and_idle_units() -> None:
    tile = Tile((), 16, rows=4, columns=16, items=1, rate=0.5)
    assert tile.cost(4, 16, units=0) == 128             # one group of 64 outputs at half the rate
    assert tile.cost(5, 17, units=2) == (4 + 2) * 128   # four groups, and two idle


@pytest.mark.parametrize(("platform", "n", "want"), [
    ("Intel(R) OpenCL", 256, {"WGX": 4}), ("Intel(R) OpenCL", 64, {}),
    ("Portable Computing Language", 1024, {})])
def test_row_tiles_share_a_group_only_where_the_platform_gains(platform: str, n: int,
                                                               want: dict[str, int]) -> None:
    spec = replace(GENERIC, kind="cpu", float_width=16, platform=platform)
    tile = best_tile(tuning_for(spec).tiles, n, n, spec)
    assert row_groups(tile, n, n, spec) == want
