"""The overlap proof: replay the steps on paper and show that nobody reads what another wrote.

It knows nothing of how offsets were chosen: it only follows, for every byte range, which value's
contents it holds."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.graph.node import Graph, Value
from handtorch.graph.step import Alias, Lowered
from handtorch.plan.plan import ALIGN_BYTES, Plan

Range = tuple[int, int, int]                # bank, start, end


def prove(graph: Graph, lowered: Lowered, plan: Plan) -> None:
    """Holds afterwards: every read of every step finds the contents of the value it names, and
    at the end every new state and every output is whole in its place."""
    holds: dict[Range, int] = {}
    views = {a.new.id: a.old.id for a in lowered.aliases}
    written = {o.value.id for s in lowered.steps for o in s.operands if o.writes}

    def content(value: int) -> int:
        """A view that no step writes holds its source's contents."""
        while value in views and value not in written:
            value = views[value]
        return value

    for value in (*(p.value for p in graph.inputs), *(s.before for s in graph.states)):
        if value.id in plan.places:
            _write(holds, _range(plan, value), value.id)
    old_of = {a.new.id: a for a in lowered.aliases}
    for number, step in enumerate(lowered.steps):
        for operand in step.operands:
            if operand.reads:
                expect = _expected(operand.value, operand.writes, old_of, content)
                held = holds.get(_range(plan, operand.value))
                assert held == expect, (
                    f"step {number} {step.kernel} reads {operand.value}, its place holds %{held}")
        for operand in step.operands:
            if operand.writes:
                _write(holds, _range(plan, operand.value), operand.value.id)
    for value in graph.results():
        if value.id in plan.places:
            held = holds.get(_range(plan, value))
            assert held == content(value.id), f"the step ends and {value} holds %{held}"
    for state in graph.states:
        if state.before.id in plan.places:
            assert plan.places[state.before.id] == plan.places[state.after.id], state.name


def _expected(value: Value, in_place: bool, old_of: dict[int, Alias],
              content: Callable[[int], int]) -> int:
    if in_place and value.id in old_of:
        return content(old_of[value.id].old.id)
    return content(value.id)


def _range(plan: Plan, value: Value) -> Range:
    place = plan.places[value.id]
    assert place.offset_bytes % ALIGN_BYTES == 0
    return place.bank, place.offset_bytes, place.offset_bytes + value.nbytes


def _write(holds: dict[Range, int], spot: Range, value: int) -> None:
    for other in [r for r in holds if _meet(r, spot)]:
        del holds[other]                    # a partly overwritten value is no longer whole
    holds[spot] = value


def _meet(a: Range, b: Range) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]
