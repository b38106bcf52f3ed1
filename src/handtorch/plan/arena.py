"""Lives -> offsets: one arena, split in banks where the device limits an allocation."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.errors import OutOfMemory
from handtorch.graph.node import Graph
from handtorch.graph.step import Lowered
from handtorch.plan.liveness import Life, classes_of, lives, touched
from handtorch.plan.plan import STAGING_IN, STAGING_OUT, Place, Plan, aligned


def make_plan(graph: Graph, lowered: Lowered, *, largest_allocation_bytes: int) -> Plan:
    """Place every value so that values alive together never overlap.

    What lasts comes first, then largest first at the lowest free offset; ties break on the value's
    id, so equal graphs get equal plans. A bank is never larger than the device's largest
    allocation; a single value that exceeds it is refused."""
    shared = classes_of(lowered)
    staged_in, in_bytes = _staging([p.value.id for p in graph.inputs], graph)
    staged_out, out_bytes = _staging([shared.root(p.value.id) for p in graph.outputs], graph)
    arena_lives = lives(graph, lowered, apart=[*staged_in, *staged_out])
    places, banks = _place(arena_lives, largest_allocation_bytes)
    spots = {m: places[life.root] for life in arena_lives for m in life.members}
    for value in {v.id for v in graph.values()} | touched(lowered).keys():
        root = shared.root(value)
        if root in staged_in:
            spots[value] = Place(STAGING_IN, staged_in[root])
        elif root in staged_out:
            spots[value] = Place(STAGING_OUT, staged_out[root])
    floor, step, alive = _floor(arena_lives)
    return Plan(places=spots, bank_bytes=banks, floor_bytes=floor,
                lasting_bytes=sum(aligned(x.nbytes) for x in arena_lives if x.lasting),
                staging_in_bytes=in_bytes, staging_out_bytes=out_bytes,
                peak_step=step, alive_at_peak=alive)


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


def _place(arena_lives: Sequence[Life], limit: int) -> tuple[dict[int, Place], tuple[int, ...]]:
    places: dict[int, Place] = {}
    banks: list[list[tuple[int, int, Life]]] = []        # per bank: (start, end, life)
    for life in sorted(arena_lives, key=lambda x: (not x.lasting, -x.nbytes, x.root)):
        size = aligned(life.nbytes)
        if size > limit:
            raise OutOfMemory(f"one tensor of {life.nbytes} B",
                              why=f"the device allows {limit} B in one allocation",
                              fix="a smaller batch or layer")
        number, at = _first_fit(banks, life, size, limit)
        if number == len(banks):
            banks.append([])
        banks[number].append((at, at + size, life))
        places[life.root] = Place(number, at)
    return places, tuple(max((end for _, end, _ in bank), default=0) for bank in banks)


def _first_fit(banks: Sequence[Sequence[tuple[int, int, Life]]], life: Life, size: int,
               limit: int) -> tuple[int, int]:
    """The first bank with room, and the lowest offset in it; a new bank always has room."""
    for number, bank in enumerate(banks):
        at = _lowest_gap(bank, life, size)
        if at + size <= limit:
            return number, at
    return len(banks), 0


def _lowest_gap(bank: Sequence[tuple[int, int, Life]], life: Life, size: int) -> int:
    at = 0
    for start, end, _ in sorted((b for b in bank if b[2].overlaps(life)), key=lambda b: b[0]):
        if start - at >= size:
            break
        at = max(at, end)
    return at


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
