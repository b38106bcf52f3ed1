"""Convolutions: pictures are rows, the gradient of a weight is a sum over them."""

from __future__ import annotations

from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.relation import Mixed, Relation, Rows, agreed, plus


@rule("conv", "conv_grad_input")
def conv(at: At) -> Relation:
    x, w, *bias = at.plain()
    if any(isinstance(v, Rows) for v in (w, *bias)) or (isinstance(x, Rows) and x.axis):
        raise Mixed("a convolution with weights of its own for each row of the batch")
    power = agreed(plus(x.power, w.power), *(b.power for b in bias))
    return with_power(Rows(0, x.outer, x.inner) if isinstance(x, Rows) else None, power)


@rule("conv_grad_weight")
def grad_weight(at: At) -> Relation:
    dy, x = at.plain()
    power = plus(dy.power, x.power)
    rows = at.on_axis()
    if rows is None:
        return with_power(None, power)
    if rows.axis or not (isinstance(dy, Rows) and isinstance(x, Rows)):
        raise Mixed("a convolution with weights of its own for each row of the batch")
    return total(power)
