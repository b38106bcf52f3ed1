"""The interval join: which pieces of time does each reading speak of?

Pieces are the instances of operations, a lane after the other, and one more lane with what is
idle in steps and what lies outside of them. All times are seconds after `zero_ns`, so that a
float holds a nanosecond of a day."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from handtorch.profile.energy.model import Bools, Floats, Ints, Spans

NS = 1e-9


def seconds(time_ns: Ints, zero_ns: int) -> Floats:
    """After `zero_ns`; differences first, so that no digit is lost."""
    return np.asarray((time_ns - zero_ns) * NS, np.float64)


@dataclass(frozen=True)
class Pieces:
    """Pieces of time, sorted by lane and then by start; those of a lane do not overlap.

    `op` counts the operations; then comes `idle` (in steps; beneath all operations where
    `layered`, in the gaps between them where not) and `outside`, which is no step's."""

    zero_ns: int
    ops: int
    layered: bool
    op: Ints
    step: Ints                      # -1 outside
    start: Floats
    end: Floats
    lanes: tuple[tuple[int, int], ...]      # of each lane the first piece, and one behind the last
    share: Floats                   # per operation: seconds of the idle beneath it that are its own
    gap: float                      # seconds in the steps that count in which nothing ran
    counts: Bools                   # per piece: it lies in a step that was measured

    @property
    def idle(self) -> int:
        return self.ops

    @property
    def outside(self) -> int:
        return self.ops + 1

    @property
    def seconds(self) -> Floats:
        return self.end - self.start


@dataclass(frozen=True)
class Touch:
    """Pairs of a row and a piece it speaks of, with a weight."""

    row: Ints
    piece: Ints
    weight: Floats


def touching(pieces: Pieces, low: Floats, high: Floats) -> tuple[Ints, Ints]:
    """All pairs (row, piece) where the piece meets [low, high] of the row."""
    rows, found = [], []
    for first, behind in pieces.lanes:
        start, end = pieces.start[first:behind], pieces.end[first:behind]
        begin = np.searchsorted(end, low, side="right")
        count = np.maximum(np.searchsorted(start, high, side="right") - begin, 0)
        row = np.repeat(np.arange(len(low)), count)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        rows.append(row)
        found.append(first + np.repeat(begin, count) + offset)
    return np.concatenate(rows), np.concatenate(found)


def active(spans: Spans) -> tuple[Ints, Ints]:
    """Sorted edges of all spans of some length, and how many run between each and the next."""
    some = spans.end_ns > spans.start_ns
    edges = np.concatenate([spans.start_ns[some], spans.end_ns[some]])
    change = np.concatenate([np.ones(some.sum(), np.int64), -np.ones(some.sum(), np.int64)])
    at, inverse = np.unique(edges, return_inverse=True)
    running = np.cumsum(np.bincount(inverse, change, len(at)).astype(np.int64))
    return at, running


def integral(at: Ints, value: Floats, low: Ints, high: Ints) -> Floats:
    """Seconds-weighted sum over [low, high] of what is value[i] from at[i] on; 0 outside of at."""
    if not len(at):
        return np.zeros(len(low))
    upto = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(at) * NS)])

    def until(t: Ints) -> Floats:
        i = np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(at) - 1)
        inside = np.where(i < len(at) - 1, np.maximum(t - at[i], 0) * NS * value[i], 0.0)
        return np.asarray(upto[i] + inside)

    return np.asarray(until(high) - until(low))


def _idle(spans: Spans, at: Ints, running: Ints) -> tuple[Ints, Ints, Ints]:
    """(start, end, step) of all time in steps in which nothing ran."""
    busy = running > 0
    rises = np.flatnonzero(busy & ~np.concatenate([[False], busy[:-1]]))
    falls = np.flatnonzero(~busy & np.concatenate([[False], busy[:-1]]))
    order = np.argsort(spans.step_start_ns, kind="stable")
    begin, end = spans.step_start_ns[order], spans.step_end_ns[order]
    # An idle piece begins where a step or a gap begins, whichever is later.
    free_start = np.concatenate([[np.iinfo(np.int64).min], at[falls]])
    free_end = np.concatenate([at[rises], [np.iinfo(np.int64).max]])
    first = np.searchsorted(free_end, begin, side="right")
    count = np.maximum(np.searchsorted(free_start, end, side="left") - first, 0)
    step = np.repeat(np.arange(len(begin)), count)
    gap = np.repeat(first, count) + np.arange(len(step)) - np.repeat(
        np.cumsum(count) - count, count)
    low = np.maximum(begin[step], free_start[gap])
    high = np.minimum(end[step], free_end[gap])
    some = high > low
    return low[some], high[some], order[step[some]]


def _outside(spans: Spans, low_ns: int, high_ns: int) -> tuple[Ints, Ints]:
    order = np.argsort(spans.step_start_ns, kind="stable")
    start = np.concatenate([[low_ns], spans.step_end_ns[order]])
    end = np.concatenate([spans.step_start_ns[order], [high_ns]])
    some = end > start
    return start[some], end[some]


def pieces_of(spans: Spans, measured: Bools, low_ns: int, high_ns: int) -> Pieces:
    """Everything between `low_ns` and `high_ns` in pieces; a span of no length is none."""
    zero, ops = int(spans.step_start_ns.min()), len(spans.names)
    at, running = active(spans)
    layered = bool((running > 1).any())
    gap_start, gap_end, gap_step = _idle(spans, at, running)
    counted = measured[gap_step]
    gap = float(((gap_end - gap_start) * counted).sum() * NS)
    out_start, out_end = _outside(spans, low_ns, high_ns)
    if layered:     # idle is beneath everything
        gap_start, gap_end = spans.step_start_ns, spans.step_end_ns
        gap_step = np.arange(len(gap_start))
    some = np.flatnonzero(spans.end_ns > spans.start_ns)
    last = int(spans.lane.max(initial=0)) + 1
    op = np.concatenate([spans.op[some], np.full(len(gap_start), ops),
                         np.full(len(out_start), ops + 1)])
    lane = np.concatenate([spans.lane[some], np.full(len(op) - len(some), last)])
    step = np.concatenate([spans.step[some], gap_step, np.full(len(out_start), -1)])
    start = np.concatenate([spans.start_ns[some], gap_start, out_start])
    end = np.concatenate([spans.end_ns[some], gap_end, out_end])
    order = np.lexsort((start, lane))
    edges = np.flatnonzero(np.diff(lane[order], prepend=-1, append=last + 2))
    with np.errstate(divide="ignore"):
        part = np.where(running > 0, 1.0 / np.maximum(running, 1), 0.0)
    own = integral(at, part, spans.start_ns, spans.end_ns) * measured[spans.step]
    return Pieces(
        zero, ops, layered, op[order], step[order],
        seconds(start[order], zero), seconds(end[order], zero),
        tuple((int(a), int(b)) for a, b in pairwise(edges)),
        np.bincount(spans.op, own, ops).astype(np.float64), gap,
        np.where(step[order] >= 0, measured[np.maximum(step[order], 0)], False))
