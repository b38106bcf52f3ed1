"""Reductions, scans and softmax: over the rows only a sum is a sum of parts."""

from __future__ import annotations

from dataclasses import replace

from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.relation import Mixed, Power, Relation, Rows, Same, Total, plus

_DEGREES = {"": 1, "abs": 1, "square": 2}


def _over_rows(op: str) -> Mixed:
    return Mixed(f"it takes the {op} over rows of the batch",
                 "a function of single rows, or the whole batch without accumulate")


def _left(at: At, rows: Rows) -> Rows:
    """The rows' axis after a reduction of others."""
    axes = at.large.numbers("axes")
    gone = 0 if at.large.flag("keepdim") else sum(a < rows.axis for a in axes)
    return replace(rows, axis=rows.axis - gone)


def _power(at: At, power: Power) -> Power:
    degree = _DEGREES[str(at.large.attrs.get("of", ""))]
    return None if power is None else plus(degree * power, at.ratio("scale"))


@rule("sum", differs=("scale",))
def sum_(at: At) -> Relation:
    (known,) = at.inputs
    if isinstance(known, Total):
        if at.large.attrs.get("of"):
            raise Mixed("it is not linear in a sum over the batch")
        return Total(known.power + at.ratio("scale"))
    (known,) = at.plain()
    power = _power(at, known.power)
    if isinstance(known, Rows):
        return total(power) if known.axis in at.large.numbers("axes") else (
            replace(_left(at, known), power=power))
    return Same(power)


@rule("amax", "amin", "any", "prod", "max_index", "min_index")
def extreme(at: At) -> Relation | tuple[Relation, ...]:
    """Positive multiples have multiples as extremes, and extremes in the same place."""
    (known,), op = at.plain(), at.large.op
    if op in ("any", "prod"):
        at.exact()
    if isinstance(known, Rows):
        if known.axis in at.large.numbers("axes"):
            raise _over_rows({"any": "union", "prod": "product"}.get(op, "largest or smallest"))
        known = _left(at, known)
    return (known, replace(known, power=0)) if op.endswith("_index") else known


@rule("cumsum", "cumprod", "softmax", "log_softmax", "softmax_grad", "log_softmax_grad")
def along(at: At) -> Relation:
    """Over one axis; gradients are linear in the first input."""
    op, rows = at.large.op, at.on_axis()
    linear = op == "cumsum" or op.endswith("_grad")
    at.exact(*range(1 if linear else 0, len(at.inputs))) if len(at.inputs) > linear else None
    rank = len(at.large.inputs[0].shape)
    if rows is not None and rank and int(at.large.number("axis", -1)) % rank == rows.axis:
        raise _over_rows(op.removesuffix("_grad").replace("_", "-"))
    return with_power(rows, at.powers(0)[0] if linear else 0)
