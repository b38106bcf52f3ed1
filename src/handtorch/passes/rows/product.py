"""Products: a row times a weight is a row; rows times rows, added up over all, are a sum."""

from __future__ import annotations

from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.relation import (
    Mixed,
    Relation,
    Rows,
    Same,
    agreed,
    one_axis,
    plus,
)


@rule("matmul", "bmm")
def product(at: At) -> Relation:
    """Axes are called B (which product), M, N and K, which is the one that is summed over."""
    node = at.large
    one, other = at.plain(0, 1)
    batch = "B" if node.op == "bmm" else ""
    a = _called(one, batch + ("KM" if node.flag("ta") else "MK"))
    b = _called(other, batch + ("NK" if node.flag("tb") else "KN"))
    power = plus(one.power, other.power)
    if a == b == "K":
        assert isinstance(one, Rows) and isinstance(other, Rows)
        one_axis([Rows(0, r.outer, r.inner, 0, r.free) for r in (one, other)])
        if len(at.inputs) > 2:
            raise Mixed("something is added to a sum over the batch")
        return total(power)
    name = _kept(a, b)
    for bias in at.plain(*range(2, len(at.inputs))) if len(at.inputs) > 2 else []:
        if isinstance(bias, Rows):
            raise Mixed("a bias that is different for each row of the batch")
        power = agreed(power, bias.power)
    if not name:
        return Same(power)
    axis = (batch + "MN").index(name)
    rows = [Rows(axis, r.outer, r.inner, 0, r.free) for r in (one, other) if isinstance(r, Rows)]
    return with_power(_bound(one_axis(rows)), power)


def _called(known: Same | Rows, names: str) -> str:
    return names[known.axis] if isinstance(known, Rows) else ""


def _kept(a: str, b: str) -> str:
    """What the rows' axis is called in the result, if they are in one of it."""
    if (a, b) in (("B", "B"), ("B", ""), ("", "B"), ("M", ""), ("", "N"), ("", "")):
        return a or b
    raise Mixed("a product of rows of the batch with other rows of it",
                "a function of single rows, or the whole batch without accumulate")


def _bound(rows: Rows) -> Rows:
    return Rows(rows.axis, rows.outer, rows.inner)
