"""Lives -> offsets: one arena, split in banks where the device limits an allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from handtorch.errors import OutOfMemory
from handtorch.graph.node import Graph
from handtorch.graph.step import Lowered
from handtorch.plan.liveness import Life, classes_of, lives, touched
from handtorch.plan.plan import MOST_ELEMENTS, STAGING_IN, STAGING_OUT, Place, Plan, aligned


def make_plan(graph: Graph, lowered: Lowered, *, largest_allocation_bytes: int) -> Plan:
    """Place every value so that values alive together never overlap.

    What lasts comes first; the rest in the best of a few orders, each value at the lowest free
    offset. Ties break on the value's id, so equal graphs get equal plans. A bank is never larger
    than the device's largest allocation; a single value that exceeds it is refused."""
    shared = classes_of(lowered)
    staged_in, in_bytes = _staging([p.value.id for p in graph.inputs], graph)
    staged_out, out_bytes = _staging([shared.root(p.value.id) for p in graph.outputs], graph)
    arena_lives = lives(graph, lowered, apart=[*staged_in, *staged_out])
    floor, step, alive = _floor(arena_lives)
    places, banks = _place(arena_lives, largest_allocation_bytes, floor)
    spots = {m: places[life.root] for life in arena_lives for m in life.members}
    for value in {v.id for v in graph.values()} | touched(lowered).keys():
        root = shared.root(value)
        if root in staged_in:
            spots[value] = Place(STAGING_IN, staged_in[root])
        elif root in staged_out:
            spots[value] = Place(STAGING_OUT, staged_out[root])
    return Plan(places=spots, bank_bytes=banks, floor_bytes=floor,
                lasting_bytes=sum(aligned(x.nbytes) for x in arena_lives if x.lasting),
                staging_in_bytes=in_bytes, staging_out_bytes=out_bytes,
                peak_step=step, alive_at_peak=alive, lives=arena_lives)


def plan_apart(lowered: Lowered) -> Plan:
    """Every class of values in a bank of its own, offset 0: for checking runs.

    An overrun from one tensor into its neighbour is then seen by Oclgrind."""
    shared, values = classes_of(lowered), touched(lowered)
    size: dict[int, int] = {}
    for key, value in sorted(values.items()):
        size[shared.root(key)] = max(size.get(shared.root(key), 0), value.nbytes)
    bank = {root: i for i, root in enumerate(size)}
    total = sum(size.values())
    return Plan({k: Place(bank[shared.root(k)], 0) for k in values}, tuple(size.values()),
                total, 0, 0, 0, 0, tuple(sorted(values)))


def _staging(ids: Sequence[int], graph: Graph) -> tuple[dict[int, int], int]:
    nbytes = {v.id: v.nbytes for v in graph.values()}
    offsets: dict[int, int] = {}
    end = 0
    for key in ids:
        if key not in offsets:
            offsets[key] = end
            end += aligned(nbytes[key])
    return offsets, end


# No one order is best for all graphs; these are cheap, so the best plan of all is taken.
_ORDERS: tuple[Callable[[Life], tuple[int, ...]], ...] = (
    lambda x: (-x.nbytes, x.first, x.root),
    lambda x: (x.first - x.last, -x.nbytes, x.root),
    lambda x: (-x.nbytes * (x.last - x.first + 1), x.root),
    lambda x: (x.first, -x.nbytes, x.root),
)


def _place(arena_lives: Sequence[Life], limit: int, floor: int
           ) -> tuple[dict[int, Place], tuple[int, ...]]:
    """What lasts first, in the order of its ids; then the rest, in the order that packs best."""
    for life in arena_lives:
        if aligned(life.nbytes) > limit:
            raise OutOfMemory(f"one tensor of {life.nbytes} B",
                              why=f"the device allows {limit} B in one allocation",
                              fix="a smaller batch or layer")
    lasting = [x for x in arena_lives if x.lasting]
    passing = [x for x in arena_lives if not x.lasting]
    best: tuple[dict[int, Place], tuple[int, ...]] | None = None
    for key in _ORDERS:
        found = _first_fit([*lasting, *sorted(passing, key=key)], limit)
        if best is None or sum(found[1]) < sum(best[1]):
            best = found
        if sum(best[1]) <= floor:
            break
    assert best is not None
    return best


class _Bank:
    """What is placed so far; arrays, because a large model has thousands of values."""

    def __init__(self, room: int) -> None:
        self._table = np.zeros((4, room), np.int64)      # start, end, first, last
        self._count = 0

    @property
    def nbytes(self) -> int:
        return int(self._table[1, :self._count].max(initial=0))

    def lowest_gap(self, life: Life, size: int) -> int:
        start, end, first, last = self._table[:, :self._count]
        meets = (first <= life.last) & (last >= life.first)
        order = np.argsort(start[meets], kind="stable")
        starts, ends = start[meets][order], np.maximum.accumulate(end[meets][order])
        free_from = np.concatenate(([0], ends))
        fits = np.flatnonzero(starts - free_from[:-1] >= size)
        return int(free_from[fits[0]] if len(fits) else free_from[-1])

    def put(self, life: Life, at: int, size: int) -> None:
        self._table[:, self._count] = at, at + size, life.first, life.last
        self._count += 1


def _first_fit(ordered: Sequence[Life], limit: int) -> tuple[dict[int, Place], tuple[int, ...]]:
    """Each at the lowest free offset of the first bank with room; a new bank always has room.

    Room ends where a kernel's 32-bit count of elements does, for bools four times as soon."""
    banks: list[_Bank] = []
    places: dict[int, Place] = {}
    for life in ordered:
        size = aligned(life.nbytes)
        gaps = ((n, bank.lowest_gap(life, size)) for n, bank in enumerate(banks))
        end = min(limit, MOST_ELEMENTS * life.item_bytes)
        number, at = next(((n, at) for n, at in gaps if at + size <= end), (len(banks), 0))
        if number == len(banks):
            banks.append(_Bank(len(ordered)))
        banks[number].put(life, at, size)
        places[life.root] = Place(number, at)
    return places, tuple(bank.nbytes for bank in banks)


def _floor(arena_lives: Sequence[Life]) -> tuple[int, int, tuple[int, ...]]:
    """The most bytes alive in any step, that step, and who was alive then."""
    change: dict[int, int] = {}
    for life in arena_lives:
        change[life.first] = change.get(life.first, 0) + aligned(life.nbytes)
        change[life.last + 1] = change.get(life.last + 1, 0) - aligned(life.nbytes)
    most = now = step = 0
    for index in sorted(change):
        now += change[index]
        if now > most:
            most, step = now, index
    alive = [x.root for x in arena_lives if x.first <= step <= x.last]
    return most, step, tuple(alive)
