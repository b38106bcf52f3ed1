"""Views, copies, constants: where the rows of the result lie."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from handtorch.graph.node import Shape
from handtorch.passes.rows.at import At, rule, with_power
from handtorch.passes.rows.relation import (
    Mixed,
    Relation,
    Rows,
    Same,
    Total,
    agreed,
    differing,
    one_axis,
)

_PLACES = "it picks rows of the batch by their place"


def _spread(at: At) -> Rows | None:
    """The axis along which the output has as many elements as there are rows, all alike."""
    found = differing(at.large.outputs[0].shape, at.small.outputs[0].shape, at.rows, at.few)
    return found and replace(found, free=True)


@rule("fill", differs=("shape", "number"))
def fill(at: At) -> Relation:
    number = at.large.number("number")
    power = at.ratio("number")
    own_multiple = number == 0 or number in (float("inf"), float("-inf"))
    return with_power(_spread(at), None if own_multiple else power)


@rule("arange", differs=("count",))
def arange(at: At) -> Relation:
    if at.large.number("count") != at.small.number("count"):
        raise Mixed("the rows of the batch are numbered, and in a part of it others have the same "
                    "numbers", "x.gather(1, index[:, None]) in place of x[arange, index]")
    return Same(0)


@rule("reshape", differs=("shape",))
def reshape(at: At) -> Relation:
    (known,), (x,), (y,) = at.inputs, at.large.inputs, at.large.outputs
    if not isinstance(known, Rows):
        return known
    if known.free:
        spread = _spread(at)
        assert spread is not None
        return replace(spread, power=known.power)
    return replace(found_axis(x.shape, y.shape, known, at.rows), power=known.power)


def found_axis(was: Shape, shape: Shape, known: Rows, rows: int) -> Rows:
    """The axis that holds the rows when a value of shape `was` is seen as one of `shape`."""
    outer = prod(was[:known.axis]) * known.outer
    inner = known.inner * prod(was[known.axis + 1:])
    before = 1
    for axis, size in enumerate(shape):
        after = prod(shape[axis + 1:])
        if before * size >= outer * rows and size > 1:
            if outer % before or inner % after or (outer // before) * rows * (inner // after) != (
                    size):
                break
            return Rows(axis, outer // before, inner // after)
        before *= size
    raise Mixed("its shape takes the rows of the batch apart")


@rule("transpose")
def transpose(at: At) -> Relation:
    (known,) = at.inputs
    if not isinstance(known, Rows):
        return known
    return replace(known, axis=at.large.numbers("order").index(known.axis))


@rule("expand", differs=("shape",))
def expand(at: At) -> Relation:
    (known,), (x,), (y,) = at.inputs, at.large.inputs, at.large.outputs
    if isinstance(known, Rows):
        return replace(known, axis=known.axis + len(y.shape) - len(x.shape), free=False)
    if not isinstance(known, Same):
        raise Mixed("it is not linear in a sum over the batch")
    spread = _spread(at)
    return with_power(spread and replace(spread, free=x.size == 1), known.power)


def _block(at: At, known: Rows, which: int) -> tuple[int, int]:
    """(first, how many) of the `outer` parts of the rows' axis that the box takes, all rows in
    each."""
    boxes = []
    for node, rows in ((at.large, at.rows), (at.small, at.few)):
        part = (node.outputs[0] if node.op == "slice" else node.inputs[which]).shape[known.axis]
        start, step = node.numbers("starts")[known.axis], node.numbers("steps")[known.axis]
        size = rows * known.inner
        if start % size or part % size or (step != 1 and part > 1):
            raise Mixed(_PLACES)
        boxes.append((start // size, part // size))
    if boxes[0] != boxes[1]:
        raise Mixed(_PLACES)
    return boxes[0]


def _elsewhere_alike(at: At, axis: int) -> None:
    for name in ("starts", "steps"):
        large, small = at.large.numbers(name), at.small.numbers(name)
        if any(a != b for i, (a, b) in enumerate(zip(large, small, strict=True)) if i != axis):
            raise Mixed(_PLACES)


@rule("slice", differs=("shape", "starts"))
def slice_(at: At) -> Relation:
    (known,) = at.inputs
    _elsewhere_alike(at, known.axis if isinstance(known, Rows) else -1)
    if not isinstance(known, Rows):
        return known
    _, count = _block(at, known, 0)
    return replace(known, outer=count)


@rule("pad", differs=("shape", "starts"))
def pad(at: At) -> Relation:
    (known,) = at.inputs
    _elsewhere_alike(at, known.axis if isinstance(known, Rows) else -1)
    if isinstance(known, Total):
        if at.large.number("number"):
            raise Mixed("it is not linear in a sum over the batch")
        return known
    (known,) = at.plain()
    if at.large.number("number"):
        at.exact(0)
    if not isinstance(known, Rows):
        return known
    _block(at, known, 0)
    whole = at.large.outputs[0].shape[known.axis]
    return replace(known, outer=whole // (at.rows * known.inner), free=False)


@rule("put_slice", differs=("starts",))
def put_slice(at: At) -> Relation:
    base, part = at.plain()
    if not isinstance(base, Rows) and not isinstance(part, Rows):
        _elsewhere_alike(at, -1)
        return Same(agreed(base.power, part.power))
    if not isinstance(base, Rows) or not isinstance(part, Rows):
        raise Mixed("it writes to rows of the batch by their place")
    _elsewhere_alike(at, base.axis)
    if part.axis != base.axis or (part.inner != base.inner and not (part.free or base.free)):
        raise Mixed("rows of the batch meet other rows of it")
    bound = base if not base.free else replace(part, outer=base.outer * base.inner // part.inner)
    _block(at, bound, 1)
    return replace(bound, power=agreed(base.power, part.power), free=False)


@rule("cat")
def cat(at: At) -> Relation:
    axis, parts = int(at.large.number("axis")), at.plain()
    power = agreed(*(r.power for r in parts))
    if not any(isinstance(r, Rows) for r in parts):
        return Same(power)
    rows = [r for r in parts if isinstance(r, Rows)]
    if rows[0].axis != axis:
        return replace(one_axis(rows), power=power, free=False)
    if len(rows) != len(parts) or len({(r.axis, r.inner) for r in rows}) > 1:
        raise Mixed("rows of the batch are joined with what is none")
    return Rows(axis, sum(r.outer for r in rows), rows[0].inner, power)
