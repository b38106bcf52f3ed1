"""Indexing: rows may be looked up in a table and looked through, but not picked."""

from __future__ import annotations

from dataclasses import replace

from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.relation import Mixed, Relation, Rows, Same, agreed, one_axis

_PICKS = "it picks rows of the batch by an index"


def _axis(at: At) -> int:
    return int(at.large.number("axis"))


@rule("take")
def take(at: At) -> Relation:
    x, index = at.plain()
    at.exact(1)
    axis, index_rank = _axis(at), len(at.large.inputs[1].shape)
    if isinstance(x, Rows):
        if x.axis == axis or isinstance(index, Rows):
            raise Mixed(_PICKS)
        moved = x.axis if x.axis < axis else x.axis + index_rank - 1
        return replace(x, axis=moved, free=False)
    if isinstance(index, Rows):
        return replace(index, axis=axis + index.axis, power=x.power, free=False)
    return Same(x.power)


@rule("gather")
def gather(at: At) -> Relation:
    at.exact(1)
    rows = at.on_axis()
    if rows is not None and rows.axis == _axis(at):
        raise Mixed(_PICKS)
    return with_power(rows and replace(rows, free=False), at.powers(0)[0])


@rule("put", differs=("shape",))
def put(at: At) -> Relation:
    index, src, *base = at.plain()
    at.exact(0)
    axis = _axis(at)
    if isinstance(index, Rows):                 # the gradient of a table
        if not isinstance(src, Rows):
            raise Mixed(_PICKS)
        one_axis([replace(index, axis=axis + index.axis), src])
        if base or not at.large.flag("add"):
            raise Mixed("rows of the batch are written over each other")
        return total(src.power)
    if any(isinstance(b, Rows) and b.axis == axis for b in base):
        raise Mixed("it writes to rows of the batch by an index")
    power = agreed(src.power, *(b.power for b in base))
    if not any(isinstance(r, Rows) for r in (src, *base)):
        return Same(power)
    rank = len(at.large.inputs[0].shape)
    if isinstance(src, Rows):
        if axis <= src.axis < axis + rank:
            raise Mixed(_PICKS)
        src = replace(src, axis=src.axis if src.axis < axis else src.axis - rank + 1)
    found = one_axis([r for r in (src, *base) if isinstance(r, Rows)])
    return replace(found, power=power, free=False)


@rule("scatter", differs=("shape",))
def scatter(at: At) -> Relation:
    at.exact(0)
    rows = at.on_axis()
    if rows is not None and rows.axis == _axis(at):
        raise Mixed(_PICKS)
    return with_power(rows and replace(rows, free=False), agreed(*at.powers()[1:]))
