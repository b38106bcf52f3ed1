"""Normalisation: over what belongs to one row it is one row's own; over the batch it is not."""

from __future__ import annotations

from handtorch.graph.node import Shape
from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.move import found_axis
from handtorch.passes.rows.relation import Mixed, Relation, Rows, Same


def _seen(at: At, index: int) -> Rows | None:
    """The rows of an input as (planes, channels, size) has it: on axis 0 or 1."""
    known = at.plain(index)[0]
    if not isinstance(known, Rows):
        return None
    split: Shape = at.large.numbers("split")
    return found_axis(at.large.inputs[index].shape, split, known, at.rows)


@rule("norm_stats", differs=("split",))
def norm_stats(at: At) -> Relation:
    at.exact(0)
    rows = _seen(at, 0)
    if rows is not None and rows.axis == 0:
        raise Mixed("batch-norm takes mean and variance over all rows of the batch, and a part of "
                    "it has others", "nn.GroupNorm; layer.eval() before train_step, which keeps "
                    "its statistics as they are; or the whole batch without accumulate")
    if len(at.inputs) > 1 or (rows is not None and rows.axis == 2):
        raise Mixed("running statistics would move on with each part of the batch")
    return with_power(rows and Rows(0, rows.outer, rows.inner), 0)


@rule("norm_grad_sums", differs=("split",))
def norm_grad_sums(at: At) -> Relation:
    at.exact(1, 2, 3)
    power, rows = at.powers(0)[0], _seen(at, 0) or _seen(at, 1)
    if rows is None:
        return Same(power)
    mean, scale = at.plain(2, 3)
    if rows.axis == 0:
        if isinstance(mean, Rows) or isinstance(scale, Rows):
            raise Mixed("a mean of its own for each row, added up over all")
        return total(power)
    share = int(at.large.number("share", 1))
    for known in (mean, scale):
        at_rows = isinstance(known, Rows) and _flat(at, known)
        if rows.axis != 1 or rows.inner % share or at_rows != (rows.outer, rows.inner // share):
            raise Mixed("statistics that are not those of single rows of the batch")
    return Rows(0, rows.outer, rows.inner, power)


def _flat(at: At, known: Rows) -> tuple[int, int]:
    flat = found_axis(at.large.inputs[2].shape, (at.large.inputs[2].size,), known, at.rows)
    return flat.outer, flat.inner


def _checked(at: At, index: int) -> Rows | None:
    rows = at.on_axis(*([index] if index == 0 else [0, 1]))
    if rows is not None and rows.axis >= int(at.large.number("axis")):
        raise Mixed("layer-norm over rows of the batch")
    return rows


@rule("layer_norm")
def layer_norm(at: At) -> Relation:
    at.exact()
    if any(isinstance(r, Rows) for r in at.inputs[1:]):
        raise Mixed("layer-norm with weights of its own for each row of the batch")
    return with_power(_checked(at, 0), 0)


@rule("layer_norm_grad")
def layer_norm_grad(at: At) -> tuple[Relation, ...]:
    at.exact(*range(1, len(at.inputs)))
    power, rows = at.powers(0)[0], _checked(at, 1)
    if any(isinstance(r, Rows) for r in at.inputs[4:]):
        raise Mixed("layer-norm with weights of its own for each row of the batch")
    dx = with_power(rows, power)
    sums = len(at.large.outputs) - 1
    return (dx, *((Same(power) if rows is None else total(power),) * sums))
