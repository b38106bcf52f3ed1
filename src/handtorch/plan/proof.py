"""The overlap proof: replay the steps on paper and show that nobody reads what another wrote.

It knows nothing of how offsets were chosen: it only follows, for every byte range, which value's
contents it holds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from handtorch.dtypes import dtype
from handtorch.graph.node import Graph, Value
from handtorch.graph.step import Alias, Lowered
from handtorch.plan.plan import ALIGN_BYTES, MOST_ELEMENTS, Plan

Range = tuple[int, int, int]                # bank, start, end


def prove(graph: Graph, lowered: Lowered, plan: Plan) -> None:
    """Holds afterwards: every read of every step finds the contents of the value it names, and
    at the end every new state and every output is whole in its place, and so is what the steps that
    run once have made."""
    memory = _Memory()
    views = {a.new.id: a.old.id for a in lowered.aliases}
    written = {o.value.id for s in lowered.all_steps for o in s.operands if o.writes}

    def content(value: int) -> int:
        """A view that no step writes holds its source's contents."""
        while value in views and value not in written:
            value = views[value]
        return value

    for value in (*(p.value for p in graph.inputs), *(s.before for s in graph.states)):
        if value.id in plan.places:
            memory.write(_range(plan, value), value.id)
    old_of = {a.new.id: a for a in lowered.aliases}
    for number, step in enumerate(lowered.all_steps):
        for operand in step.operands:
            if operand.reads:
                expect = _expected(operand.value, operand.writes, old_of, content)
                held = memory.holds(_range(plan, operand.value))
                assert held == expect, (
                    f"step {number} {step.kernel} reads {operand.value}, its place holds %{held}")
        for operand in step.operands:
            if operand.writes:
                memory.write(_range(plan, operand.value), operand.value.id)
    for value in graph.results():
        if value.id in plan.places:
            held = memory.holds(_range(plan, value))
            assert held == content(value.id), f"the step ends and {value} holds %{held}"
    for value in (o.value for s in lowered.once for o in s.operands if o.writes):
        assert memory.holds(_range(plan, value)) == value.id, f"{value} does not last"
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
    end = place.offset_bytes + value.nbytes
    assert end <= MOST_ELEMENTS * dtype(value.dtype).size_bytes or not place.offset_bytes, (
        f"{value} ends at byte {end}, beyond a kernel's 32-bit count of elements")
    return place.bank, place.offset_bytes, end


class _Memory:
    """Byte ranges of each bank and whose contents they hold; ranges never overlap."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {}
        self._held: dict[int, list[tuple[int, int]]] = {}        # end, value; beside the starts

    def write(self, spot: Range, value: int) -> None:
        bank, start, end = spot
        starts, held = self._starts.setdefault(bank, []), self._held.setdefault(bank, [])
        first = bisect_left(starts, start)
        if first and held[first - 1][0] > start:
            first -= 1                       # a partly overwritten value is no longer whole
        last = bisect_left(starts, end)
        starts[first:last], held[first:last] = [start], [(end, value)]

    def holds(self, spot: Range) -> int | None:
        bank, start, end = spot
        starts = self._starts.get(bank, [])
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] == start:
            found_end, value = self._held[bank][at]
            return value if found_end == end else None
        return None
