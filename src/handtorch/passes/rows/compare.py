"""The proof: both steps, node by node. What is not proven is refused, with the user's line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from handtorch.errors import CannotCapture
from handtorch.graph.node import Graph, Node, Value
from handtorch.passes.rows import (
    conv,
    index,
    losses,
    move,
    norm,
    optimizers,
    pointwise,
    pool,
    product,
    random,
    reduce,
    rnn,
)
from handtorch.passes.rows.at import RULES, At, Even
from handtorch.passes.rows.counts import by_count
from handtorch.passes.rows.relation import (
    Mixed,
    Relation,
    Rows,
    Same,
    Total,
    Whole,
    differing,
)

FAMILIES = (conv, index, losses, move, norm, optimizers, pointwise, pool, product, random, reduce,
            rnn)
_ALONE = "a function of single rows, or the whole batch without accumulate"


@dataclass
class Findings:
    """Of the values of the small step, by id: what they are to those of the large one.

    `cuts` are sums over the batch that must be added up before a node of `late` (by index) reads
    them; those nodes run once for all parts."""

    known: dict[int, Relation] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    cuts: dict[int, int] = field(default_factory=dict)      # with their powers
    even: list[Even] = field(default_factory=list)
    made: dict[int, Node] = field(default_factory=dict)

    def cut(self, value: Value) -> None:
        """This value is wanted as the large step has it."""
        known = self.known[value.id]
        if isinstance(known, Total):
            if value.dtype != "f32":
                raise Mixed("whole numbers are added up over the batch and computed with further",
                            "the sum as it is, or as float32")
            self.cuts[value.id] = known.power
        elif isinstance(known, Rows):
            raise Mixed("rows of the batch meet a sum over all of them", _ALONE)
        elif isinstance(known, Same) and known.power not in (0, None):
            raise Mixed("a number that depends on the number of rows meets a sum over them")


def compare(large: Graph, small: Graph, rows: int, few: int) -> Findings:
    """Afterwards it is proven that a step on `rows` rows is the sum of steps on `few` of them each,
    with what `Findings` says done once; or it was refused."""
    if [n.op for n in large.nodes] != [n.op for n in small.nodes]:
        first = next((a for a, b in zip(large.nodes, small.nodes, strict=False) if a.op != b.op),
                     None)
        raise _refused(first, f"the step takes another course for {few} rows than for {rows}",
                       "a step that does the same for any number of rows")
    found = Findings()
    ids: dict[int, int] = {}
    for a, b in _edges(large, small):
        ids[a.id] = b.id
    for port, part in zip(large.inputs, small.inputs, strict=True):
        assert port.value.shape[0] == rows and part.value.shape[0] == few
        found.known[part.value.id] = Rows(0)
    for state in small.states:
        found.known[state.before.id] = Same(0)
    for number, (one, other) in enumerate(zip(large.nodes, small.nodes, strict=True)):
        try:
            at = At(one, other, _known(found, one, other, ids), rows, few, found.even)
            _take(found, number, by_count(at, found.made))
        except Mixed as e:
            raise _refused(one, e.why, e.fix) from None
        ids |= {a.id: b.id for a, b in zip(one.outputs, other.outputs, strict=True)}
    _states(found, large, small)
    return found


def _edges(large: Graph, small: Graph) -> Iterable[tuple[Value, Value]]:
    for one, other in zip(large.states, small.states, strict=True):
        if one.name != other.name or one.before.shape != other.before.shape:
            raise _refused(None, f"{one.name} depends on the number of rows", _ALONE)
        yield one.before, other.before
    for a, b in zip(large.inputs, small.inputs, strict=True):
        yield a.value, b.value


def _known(found: Findings, one: Node, other: Node, ids: dict[int, int]) -> tuple[Relation, ...]:
    if tuple(ids[v.id] for v in one.inputs) != tuple(v.id for v in other.inputs):
        raise Mixed("the step takes another course for another number of rows")
    return tuple(found.known[v.id] for v in other.inputs)


def _take(found: Findings, number: int, at: At) -> None:
    """What the node gives, from what it reads."""
    rule, differs = RULES[at.large.op]
    for name in {*at.large.attrs, *at.small.attrs} - set(differs):
        if at.large.attrs.get(name) != at.small.attrs.get(name):
            raise Mixed(f"its setting {name!r} depends on the number of rows")
    sums = any(isinstance(r, Total | Whole) for r in at.inputs)
    if any(isinstance(r, Whole) for r in at.inputs):
        given: Relation | tuple[Relation, ...] = Whole()
    else:
        try:
            given = rule(at)
        except Mixed:
            if not sums:
                raise
            given = Whole()
    if isinstance(given, Whole):
        found.late.add(number)
        given = _late(found, at, given)
    each = given if isinstance(given, tuple) else (given,) * len(at.large.outputs)
    for one, other, known in zip(at.large.outputs, at.small.outputs, each, strict=True):
        _fits(one, other, known, at)
        found.known[other.id], found.made[other.id] = known, at.small


def _late(found: Findings, at: At, given: Whole) -> Whole:
    """Everything it reads must be known as the large step has it."""
    updated = given.updated or any(isinstance(r, Whole) and r.updated for r in at.inputs)
    if updated and not given.updated and any(isinstance(r, Rows) for r in at.inputs):
        raise Mixed("it is computed from rows of the batch with weights that the step has updated "
                    "already, and these wait for all parts of the batch",
                    "all of backward() before the first optimizer.step(); or a train_step for each "
                    "optimizer; or the whole batch without accumulate")
    for value in at.small.inputs:
        found.cut(value)
    return Whole(updated)


def _fits(one: Value, other: Value, known: Relation, at: At) -> None:
    """The relation is one that the shapes can have: our own rules are checked too."""
    spread = differing(one.shape, other.shape, at.rows, at.few)
    if isinstance(known, Rows):
        held = spread and (spread.axis, spread.inner) == (known.axis, known.outer * known.inner)
        if not held:
            raise Mixed("its shape does not follow the rows of the batch", _ALONE)
    elif spread is not None:
        raise Mixed("what it gives for each row is computed from a sum over all of them", _ALONE)


def _states(found: Findings, large: Graph, small: Graph) -> None:
    """New states are those of the large step."""
    made = {v.id: n for n in large.nodes for v in n.outputs}
    for state, whole in zip(small.states, large.states, strict=True):
        if state.changes and state.role != "rng":
            try:
                found.cut(state.after)
            except Mixed as e:
                raise _refused(made.get(whole.after.id), f"{state.name}: {e.why}", e.fix) from None


def _refused(node: Node | None, why: str, fix: str) -> CannotCapture:
    what = "micro-batches"
    if node is not None:
        what += f": {node.op}" + (f" of layer {node.layer}" if node.layer else "")
    return CannotCapture(what, why=why or "not proven", fix=fix or _ALONE,
                         where=str(node.where or "") if node is not None else "")
