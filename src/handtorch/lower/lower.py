"""The stage: every family's lowerings registered, then the walk."""

from __future__ import annotations

from handtorch.lower import matmul, move, optimizers, pointwise, reduce
from handtorch.lower.registry import LOWERINGS, lower_graph

FAMILIES = (matmul, move, optimizers, pointwise, reduce)

__all__ = ["FAMILIES", "LOWERINGS", "lower_graph"]
