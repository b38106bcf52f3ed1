"""The families there are. A new one is a line here, and one in `kernels/results.py`."""

from __future__ import annotations

from typing import Any

from handtorch.kernels.bmm_tiles import Batch
from handtorch.kernels.conv_tiles import ConvPass
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.variant import Problem
from handtorch.tune.convolutions import Convolutions
from handtorch.tune.family import Family
from handtorch.tune.products import Batches, Products

FAMILIES: dict[type[Problem], Family[Any]] = {
    Product: Products(), Batch: Batches(), ConvPass: Convolutions()}


def family_of(problem: Problem) -> Family[Any]:
    return FAMILIES[type(problem)]


def usual_problems() -> tuple[Problem, ...]:
    """What is worth tuning if nobody says what they need."""
    return tuple(p for family in FAMILIES.values() for p in family.usual())
