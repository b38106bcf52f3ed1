"""Point-wise ops: each row of the result is made of that row of the inputs."""

from __future__ import annotations

from handtorch.graph.ops.pointwise import SIMPLE
from handtorch.graph.region import COMPARISONS
from handtorch.passes.rows.at import At, rule, total, with_power
from handtorch.passes.rows.relation import (
    Mixed,
    Power,
    Relation,
    Rows,
    Same,
    Total,
    agreed,
    one_axis,
    plus,
)

# f(c x) = c^degree f(x) for c > 0; all others only take numbers that are no multiples.
_DEGREES = {"copy": 1, "neg": 1, "abs": 1, "relu": 1, "to_f32": 1, "square": 2, "reciprocal": -1,
            "sign": 0}
_LINEAR = ("copy", "neg", "to_f32")


@rule(*SIMPLE)
def simple(at: At) -> Relation:
    if any(isinstance(r, Total) for r in at.inputs):
        return _of_totals(at)
    return with_power(_axis(at), _power(at))


def _axis(at: At) -> Rows | None:
    """Where the output has the rows: inputs meet it at the right."""
    (out,) = at.large.outputs
    found = []
    for value, known in zip(at.large.inputs, at.plain(), strict=True):
        if isinstance(known, Rows):
            axis = known.axis + len(out.shape) - len(value.shape)
            found.append(Rows(axis, known.outer, known.inner, 0, known.free))
    alike = all((isinstance(r, Rows) and r.free) or v.size == 1
                for v, r in zip(at.large.inputs, at.inputs, strict=True))
    rows = one_axis(found) if found else None
    return rows and Rows(rows.axis, rows.outer, rows.inner, 0, rows.free and alike)


def _power(at: At) -> Power:
    op, powers = at.large.op, at.powers()
    if op == "mul":
        return plus(*powers)
    if op == "div":
        return _quotient(*powers)
    if op in ("add", "sub", "maximum", "minimum"):
        return agreed(*powers)
    if op in COMPARISONS:
        agreed(*powers)
        return 0
    if op == "where":
        at.exact(0)
        return agreed(*powers[1:])
    if op == "relu_grad":
        return powers[0]
    if op in _DEGREES:
        return None if powers[0] is None else _DEGREES[op] * powers[0]
    at.exact()
    return 0


def _quotient(over: Power, under: Power) -> Power:
    return None if over is None else over - (under or 0)


def _of_totals(at: At) -> Relation:
    """Sums over the batch stay sums where that costs next to nothing; else they are added up
    first, and the op is computed once."""
    op, inputs = at.large.op, at.inputs
    if op in _LINEAR and isinstance(inputs[0], Total):
        return inputs[0]
    if op in ("add", "sub") and all(isinstance(r, Total) for r in inputs):
        return total(agreed(*(r.power for r in inputs if isinstance(r, Total))))
    if op in ("mul", "div"):
        for here, there in ((0, 1), (1, 0)) if op == "mul" else ((0, 1),):
            one, other = inputs[here], inputs[there]
            if (isinstance(one, Total) and isinstance(other, Same) and other.power is not None
                    and at.large.inputs[there].size == 1):
                return Total(one.power + (other.power if op == "mul" else -other.power))
    raise Mixed("it is not linear in a sum over the batch")
