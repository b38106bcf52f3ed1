"""The stage: every family's lowerings registered, then the walk."""

from __future__ import annotations

from handtorch.lower import (
    conv,
    index,
    losses,
    move,
    norm,
    optimizers,
    pointwise,
    pool,
    product,
    random,
    reduce,
    rnn,
)
from handtorch.lower.registry import LOWERINGS, lower_graph

FAMILIES = (conv, index, losses, move, norm, optimizers, pointwise, pool, product, random, reduce,
            rnn)

__all__ = ["FAMILIES", "LOWERINGS", "lower_graph"]
