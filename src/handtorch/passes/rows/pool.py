"""Pooling: within each plane of each row."""

from __future__ import annotations

from dataclasses import replace

from handtorch.passes.rows.at import At, rule, with_power
from handtorch.passes.rows.relation import Mixed, Relation


@rule("max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad", differs=("shape",))
def pool(at: At) -> Relation | tuple[Relation, ...]:
    """Positive multiples have their maxima in the same places; averages are linear."""
    rows, power = at.on_axis(), at.powers(0)[0]
    if rows is not None and rows.axis >= len(at.large.inputs[0].shape) - 2:
        raise Mixed("it pools rows of the batch")
    known = with_power(rows and replace(rows, free=False), power)
    return (known, replace(known, power=0)) if at.large.op == "max_pool" else known
