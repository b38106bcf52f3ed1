"""Class losses: sums over rows; a mean is one of parts with equally many labels that count."""

from __future__ import annotations

from dataclasses import replace

from handtorch.passes.rows.at import At, Even, rule, total, with_power
from handtorch.passes.rows.relation import Mixed, Relation, Rows, Same, plus

_CONSTANT = "reduction='sum', divided by a number that is the same for every batch"


def _mean(at: At, inputs: int) -> int:
    """The power that a mean has more than a sum, and what must hold of the labels."""
    if at.large.attrs["reduction"] != "mean":
        return 0
    if len(at.inputs) > inputs:
        raise Mixed("with class weights the mean is divided by the sum of the weights of the "
                    "labels, which is another for each part of the batch", _CONSTANT)
    at.even.append(Even(at.small.inputs[1], int(at.large.number("ignore")), at.large))
    return 1


@rule("nll_loss")
def nll_loss(at: At) -> Relation:
    at.exact(1, *range(2, len(at.inputs)))
    rows, power = at.on_axis(0, 1), at.powers(0)[0]
    if rows is None:
        return Same(power)
    if rows.axis:
        raise Mixed("a loss over classes whose first axis is not the batch")
    if at.large.attrs["reduction"] == "none":
        return with_power(rows, power)
    return total(plus(power, _mean(at, 2)))


@rule("nll_loss_grad", differs=("shape",))
def nll_loss_grad(at: At) -> Relation:
    """(gradient of the loss, target): a row for each target."""
    at.exact(1, *range(2, len(at.inputs)))
    g, target = at.plain(0, 1)
    if not isinstance(target, Rows):
        return Same(g.power)
    if at.large.attrs["reduction"] == "none":
        return with_power(at.on_axis(0, 1), g.power)
    if target.axis or isinstance(g, Rows):
        raise Mixed("a loss over classes whose first axis is not the batch")
    return replace(target, power=plus(g.power, _mean(at, 2)), free=False)
