"""Random numbers: each row has its own; a draw that all rows share would be drawn anew."""

from __future__ import annotations

from dataclasses import replace

from handtorch.passes.rows.at import At, rule
from handtorch.passes.rows.relation import Mixed, Relation, Same, differing


@rule("rand", "randn", "randint", differs=("shape",))
def draw(at: At) -> Relation:
    found = differing(at.large.outputs[0].shape, at.small.outputs[0].shape, at.rows, at.few)
    if found is None:
        raise Mixed("random numbers that all rows of the batch share would be drawn anew for each "
                    "part of it", "numbers of its own for each row, or the whole batch without "
                    "accumulate")
    return replace(found, free=True)


@rule("rng_next")
def rng_next(_: At) -> Relation:
    return Same(0)
