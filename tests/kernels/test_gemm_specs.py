"""Launch geometry of the matrix products."""

from __future__ import annotations

import pytest

from handtorch.kernels.gemm_specs import (
    DOT,
    NAIVE,
    PACK_B,
    REGISTER,
    TILED,
    TILED_VECTOR,
    VECTOR,
    tile_width,
)
from handtorch.kernels.spec import Kernel

SIZES = {"M": 65, "N": 33, "K": 17}


@pytest.mark.parametrize("kernel, macros, geometry", [
    (NAIVE, {"WGX": 16, "WGY": 4}, ((48, 68), (16, 4))),
    (VECTOR, {"V": 4, "WGX": 4, "WGY": 4}, ((12, 68), (4, 4))),
    (TILED, {"TS": 16}, ((48, 80), (16, 16))),
    (TILED_VECTOR, {"TS": 32, "V": 4}, ((16, 96), (8, 32))),
    (REGISTER, {"R": 6, "NV": 2, "V": 16, "WGX": 1, "WGY": 1}, ((11, 2), (1, 1))),
    (REGISTER, {"R": 4, "NV": 2, "V": 4, "WGX": 16, "WGY": 8}, ((32, 8), (16, 8))),
    (DOT, {"R": 4, "V": 16, "WGX": 1, "WGY": 1}, ((17, 9), (1, 1))),
    (PACK_B, {"W": 32, "KB": 16, "WGY": 1}, ((2, 2), (1, 1))),
    (PACK_B, {"W": 8, "KB": 4, "WGY": 4}, ((5, 8), (1, 4))),
])
def test_every_output_has_an_item_and_groups_are_whole(
        kernel: Kernel, macros: dict[str, int],
        geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert kernel.geometry({**kernel.defaults, **macros}, SIZES) == geometry


def test_local_memory_is_two_tiles() -> None:
    assert TILED.local_bytes({"TS": 16}) == 2048
    assert TILED_VECTOR.local_bytes({"TS": 32, "V": 4}) == 8192
    assert REGISTER.local_bytes({}) == 0


def test_tile_width() -> None:
    assert tile_width({"NV": 4, "V": 16}) == 64
