"""What two launches in a row would not move, were they one.

The value that the first writes and the second reads would stay in registers: it is not read, and
not written either unless something else reads it later. From the regions of memory that launches
touch, so views and values that share a place are seen for what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handtorch.program import Program


class Region(NamedTuple):
    """What a launch touches: bytes `start` to `end` of a piece of memory."""

    memory: int
    start: int
    end: int
    reads: bool
    writes: bool

    def meets(self, other: Region) -> bool:
        return (self.memory == other.memory and self.start < other.end
                and other.start < self.end)


@dataclass
class _Written:
    """A region as one launch left it, until another writes there."""

    region: Region
    by: int
    read_by_next: bool = False
    read_later: bool = False


def spared_bytes(launches: Sequence[Sequence[Region]], kept: Iterable[Region] = ()) -> list[int]:
    """For each launch the bytes that it and the one before would not move as one launch; 0 for the
    first. `kept` is read after the last: results, and state that the next step reads."""
    alive: list[_Written] = []
    done: list[_Written] = []
    for i, touched in enumerate(launches):
        for region in touched:
            if region.reads:
                _read(alive, region, i)
        # An in-place operation reads what it overwrites: `read` first, as above.
        written = [r for r in touched if r.writes]
        for old in [w for w in alive if any(w.region.meets(r) for r in written)]:
            alive.remove(old)
            done.append(old)
        # What the next launch does not read is of no interest.
        following = launches[i + 1] if i + 1 < len(launches) else ()
        alive += [_Written(r, i) for r in written
                  if any(n.reads and (n.memory, n.start, n.end) == (r.memory, r.start, r.end)
                         for n in following)]
    for region in kept:
        _read(alive, region, len(launches))
    spared = [0] * len(launches)
    for w in (*done, *alive):
        if w.read_by_next:
            spared[w.by + 1] += (1 if w.read_later else 2) * (w.region.end - w.region.start)
    return spared


def _read(alive: Iterable[_Written], region: Region, by: int) -> None:
    for written in alive:
        if written.region.meets(region):
            written.read_by_next |= by == written.by + 1
            written.read_later |= by > written.by + 1


def of_program(program: Program) -> list[int]:
    """For each launch of a step."""
    places = program.plan.places

    def region(value_id: int, nbytes: int, reads: bool, writes: bool) -> Region:
        place = places[value_id]
        return Region(place.bank, place.offset_bytes, place.offset_bytes + nbytes, reads, writes)

    kept = [region(v.id, v.nbytes, True, False) for v in (
        *(p.value for p in program.graph.outputs), *(s.after for s in program.graph.states))]
    return spared_bytes([[region(o.value.id, o.value.nbytes, o.reads, o.writes)
                          for o in step.operands] for step in program.steps], kept)
