"""The matrix products as kernels: what each needs and how it is launched.

The first four are the ladder of the study `sgemm`; `gemm_register`, `gemm_dot` and `pack_b` are
what `gemm.matmul_steps` uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handtorch.graph.node import Value
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes, ceil_div, number, round_up

_MNK = {"M": "int", "N": "int", "K": "int"}
_FORMS = {"BIAS": 0, "ACT": 0, "MASK": 0}
_GROUP = {"WGX": 1, "WGY": 1}
_UPDATE: Defines = {"SGD": 0, "HAS_MOMENTUM": 0, "NESTEROV": 0, "SIGN": "1.0f", "DECAY": "0.0f",
                    "MOMENTUM": "0.0f"}
DOT_COLUMNS = 4                             # columns that an item of gemm_dot computes


def _outputs(width: Callable[[Defines], int], group: Callable[[Defines], tuple[int, int]]
             ) -> Callable[[Defines, Sizes], Geometry]:
    """Items over columns (dimension 0, neighbours side by side on a GPU) and rows."""
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        x, y = group(defines)
        columns = ceil_div(int(sizes["N"]), width(defines))
        return (round_up(columns, x), round_up(int(sizes["M"]), y)), (x, y)
    return geometry


def _tiles(width: Callable[[Defines], int]) -> Callable[[Defines, Sizes], Geometry]:
    """Items over row tiles (dimension 0: neighbours share B's panel in the cache) and columns; if
    SPLIT, over parts of K besides, one after the other."""
    def geometry(defines: Defines, sizes: Sizes) -> Geometry:
        x, y = number(defines, "WGX"), number(defines, "WGY")
        rows = ceil_div(int(sizes["M"]), number(defines, "R"))
        columns = ceil_div(int(sizes["N"]), width(defines))
        items = round_up(rows, x), round_up(columns, y)
        if split := number({"SPLIT": 0, **defines}, "SPLIT"):
            return (*items, ceil_div(int(sizes["K"]), split)), (x, y, 1)
        return items, (x, y)
    return geometry


def _group(defines: Defines) -> tuple[int, int]:
    return number(defines, "WGX"), number(defines, "WGY")


def _square(defines: Defines) -> tuple[int, int]:
    return number(defines, "TS") // number({"V": 1, **defines}, "V"), number(defines, "TS")


def _two_tiles_bytes(defines: Defines) -> int:
    return 2 * 4 * number(defines, "TS") ** 2


def tile_width(defines: Defines) -> int:
    """How many columns an item of `gemm_register` computes."""
    return number(defines, "NV") * number(defines, "V")


@dataclass(frozen=True)
class Sgd:
    """The update of a weight by the product that is its gradient; `moment` may be absent."""

    rate: Value
    moment: Value | None
    momentum: float
    decay: float
    maximize: bool
    nesterov: bool

    def defines(self) -> dict[str, int | str]:
        return {"SGD": 1, "HAS_MOMENTUM": int(self.moment is not None),
                "NESTEROV": int(self.nesterov), "SIGN": "-1.0f" if self.maximize else "1.0f",
                "DECAY": c_float(self.decay), "MOMENTUM": c_float(self.momentum)}

    def operands(self) -> dict[Value, str]:
        return {self.rate: "r", **({self.moment: "rw"} if self.moment is not None else {})}


def c_float(number: float) -> str:
    """The number as a float of OpenCL C: all its digits, and a point or an exponent."""
    return f"{float(number)!r}f"


def _panels(defines: Defines, sizes: Sizes) -> Geometry:
    panels = ceil_div(int(sizes["N"]), number(defines, "W"))
    blocks = ceil_div(int(sizes["K"]), number(defines, "KB"))
    group = number(defines, "WGY")
    return (panels, round_up(blocks, group)), (1, group)


NAIVE = Kernel("gemm_naive", ("r", "r", "w"), _outputs(lambda _: 1, _group), _MNK,
               {"WGX": 16, "WGY": 4})
VECTOR = Kernel("gemm_vector", ("r", "r", "w"), _outputs(lambda d: number(d, "V"), _group), _MNK,
                {"V": 4, "WGX": 4, "WGY": 16}, space={"V": (2, 4, 8, 16)})
TILED = Kernel("gemm_tiled", ("r", "r", "w"), _outputs(lambda _: 1, _square), _MNK,
               {"TS": 16}, space={"TS": (8, 16)}, local_bytes=_two_tiles_bytes)
TILED_VECTOR = Kernel("gemm_tiled_vector", ("r", "r", "w"),
                      _outputs(lambda d: number(d, "V"), _square), _MNK, {"TS": 32, "V": 4},
                      space={"TS": (16, 32), "V": (2, 4, 8, 16)}, local_bytes=_two_tiles_bytes)
REGISTER = Kernel("gemm_register", ("r", "r", "w"), _tiles(tile_width), _MNK,
                  {"R": 4, "NV": 2, "V": 4, "KU": 2, "TA": 0, "PB": 0, "SPLIT": 0, **_FORMS,
                   **_UPDATE, **_GROUP},
                  space={"R": (1, 2, 4, 6, 8, 12), "NV": (1, 2, 3, 4), "V": (1, 2, 4, 8, 16),
                         "KU": (1, 2, 4)})
DOT = Kernel("gemm_dot", ("r", "r", "w"), _tiles(lambda _: DOT_COLUMNS), _MNK,
             {"R": 4, "V": 4, **_FORMS, **_GROUP}, space={"R": (1, 2, 4, 6), "V": (4, 8, 16)})
PACK_B = Kernel("pack_b", ("r", "w"), _panels, {"N": "int", "K": "int"},
                {"W": 8, "V": 4, "KB": 16, "TB": 0, "WGY": 1}, space={"KB": (4, 16, 64)})

KERNELS = (NAIVE, VECTOR, TILED, TILED_VECTOR, REGISTER, DOT, PACK_B)
