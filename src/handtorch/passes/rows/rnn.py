"""Recurrent layers: over time, one row of the batch at a time."""

from __future__ import annotations

from handtorch.passes.rows.at import At, rule, with_power
from handtorch.passes.rows.relation import Mixed, Relation, Rows, agreed, one_axis


@rule("lstm", "gru", "rnn")
def forward(at: At) -> tuple[Relation, ...]:
    at.exact()
    return _outputs(at, 1, ())


@rule("lstm_grad", "gru_grad", "rnn_grad")
def backward(at: At) -> tuple[Relation, ...]:
    """Linear in the gradients, which come last; so is all it gives but `before`."""
    given = len(at.inputs) - len(at.large.words("grads"))
    at.exact(*range(given))
    return _outputs(at, 0, tuple(range(given, len(at.inputs))))


def _outputs(at: At, weight: int, gradients: tuple[int, ...]) -> tuple[Relation, ...]:
    """[T, B, ..] has the rows on one axis, [B, H] on its first."""
    over_time = 0 if at.large.flag("batch_first") else 1
    found = []
    for index, (value, known) in enumerate(zip(at.large.inputs, at.plain(), strict=True)):
        if isinstance(known, Rows):
            if index == weight or known.axis != (over_time if len(value.shape) == 3 else 0):
                raise Mixed("a recurrent layer whose rows are not those of the batch")
            found.append(Rows(0, known.outer, known.inner, 0, known.free))
    rows = one_axis(found) if found else None
    power = agreed(*at.powers(*gradients)) if gradients else 0
    before = {"lstm_grad": 1, "gru_grad": 2, "rnn_grad": 1}.get(at.large.op)
    out = []
    for index, value in enumerate(at.large.outputs):
        axis = over_time if len(value.shape) == 3 else 0
        out.append(with_power(rows and Rows(axis, rows.outer, rows.inner),
                              0 if index == before else power))
    return tuple(out)
