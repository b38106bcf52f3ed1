"""Who shares a place, and from which step to which it must stay untouched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from handtorch.dtypes import dtype
from handtorch.graph.node import Graph, Value
from handtorch.graph.step import Lowered


@dataclass(frozen=True)
class Life:
    """One stretch of memory: the values that take turns in it, first and last step in use.

    Both ends are inclusive: a value written by step 3 and last read by step 5 lives 3..5."""

    root: int
    members: tuple[int, ...]
    nbytes: int
    first: int
    last: int
    lasting: bool
    item_bytes: int = 4               # of the smallest element that is counted in it

    def overlaps(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


class Classes:
    """Union-find over value ids; the root is the oldest member."""

    def __init__(self) -> None:
        self._up: dict[int, int] = {}

    def root(self, value: int) -> int:
        while (up := self._up.get(value, value)) != value:
            value = up
        return value

    def join(self, new: int, old: int) -> None:
        self._up[self.root(new)] = self.root(old)


def classes_of(lowered: Lowered) -> Classes:
    found = Classes()
    for alias in lowered.aliases:
        found.join(alias.new.id, alias.old.id)
    return found


def touched(lowered: Lowered) -> dict[int, Value]:
    """Every value any step touches, by id."""
    return {o.value.id: o.value for s in lowered.all_steps for o in s.operands}


def lives(graph: Graph, lowered: Lowered, *, apart: Iterable[int]) -> tuple[Life, ...]:
    """The lives of all arena values; `apart` are class roots that live elsewhere (staging)."""
    shared, elsewhere = classes_of(lowered), set(apart)
    values = {v.id: v for v in graph.values()} | touched(lowered)
    end = len(lowered.steps) - 1
    span: dict[int, list[int]] = {}
    for index, step in enumerate(lowered.steps):
        for operand in step.operands:
            span.setdefault(shared.root(operand.value.id), []).append(index)
    lasting = {shared.root(s.before.id) for s in graph.states}
    lasting |= {shared.root(o.value.id) for s in lowered.once for o in s.operands}
    for root in lasting:
        span[root] = [0, max(end, 0)]
    members: dict[int, list[int]] = {}
    for value in sorted(values):
        members.setdefault(shared.root(value), []).append(value)
    return tuple(
        Life(root, tuple(members[root]), max(values[m].nbytes for m in members[root]),
             min(at), max(at), root in lasting,
             min(dtype(values[m].dtype).size_bytes for m in members[root]))
        for root, at in sorted(span.items()) if root not in elsewhere)
