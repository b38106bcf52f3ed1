"""Updates of weights: once, when the gradients of all parts have been added up."""

from __future__ import annotations

from handtorch.passes.rows.at import At, rule
from handtorch.passes.rows.relation import Mixed, Relation, Rows, Whole


@rule("tick", "sgd", "adam", "rmsprop", "adagrad")
def update(at: At) -> Relation:
    if any(isinstance(r, Rows) for r in at.inputs):
        raise Mixed("a weight with a row for each row of the batch")
    return Whole(updated=True)
