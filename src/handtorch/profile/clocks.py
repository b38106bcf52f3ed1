"""The device's time on CLOCK_MONOTONIC, with a bound on the error. Pure arithmetic.

With `offset` = CLOCK_MONOTONIC - device time, what is known comes as bounds of the offset at some
device time: two-sided from sync points, one-sided from the events themselves, because nothing
starts before it was enqueued and nothing ends after it was seen to be done. QUEUED must lie inside
the host's calls that enqueue; it is believed as far as it agreed with START at the sync points, and
is what keeps a long run together that never stops to compare clocks. Between two bounds the offset
drifts: evenly, at a rate taken from the sync points, but for `WANDER`. So every bound holds
elsewhere too, widened by the time between; the tightest of all, from below and from above, is what
an event is placed with, in the middle of the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handtorch.runtime.recorder import SyncPoint

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WANDER = 50e-6              # how far the rate may be from its mean: temperature, NTP
MOST_DRIFT = 1e-3           # no two clocks differ by more; NTP slews by half of it

NO_TIMES = "the driver gave no START or END"
SWAPPED = "the driver gave START after END"
TOO_LONG = "the driver's times are longer than the host saw it take"
TOO_EARLY = "the driver's START is before it was enqueued"
TOO_LATE = "the driver's END is after it was seen to be done"


@dataclass(frozen=True)
class Stamps:
    """Events in the order in which an in-order queue was given them: the driver's four times, and
    three of the host: not before `after`, enqueued by `flushed`, done by `before`."""

    queued: Ints
    submit: Ints
    start: Ints
    end: Ints
    after: Ints
    flushed: Ints
    before: Ints


@dataclass(frozen=True)
class Placed:
    """The same events on CLOCK_MONOTONIC. Where `reason` is empty the whole event may be off by
    `error`, its length is the device's. Else it ran between `start` and `end`, give or take
    `error`, and QUEUED and SUBMIT mean nothing."""

    queued: Ints
    submit: Ints
    start: Ints
    end: Ints
    error: Ints
    reason: tuple[str, ...]


@dataclass(frozen=True)
class Offsets:
    """Bounds of the offset at sorted device times, each as tight as all others make it.

    Figures are relative to `zero_ns` and `base_ns`, and without the drift of `rate`: doubles do
    not hold a clock that counts nanoseconds since 1970."""

    zero_ns: int
    base_ns: int
    rate: float
    limit: float
    at: Floats
    low: Floats
    high: Floats

    def bounds(self, device_ns: Ints) -> tuple[Floats, Floats]:
        """The offset at these times, relative to `base_ns`: at least, at most."""
        t = (device_ns - self.zero_ns).astype(np.float64)
        left = np.clip(np.searchsorted(self.at, t, side="right") - 1, 0, None)
        right = np.clip(left + 1, None, len(self.at) - 1)
        far_left = self.limit * np.abs(t - self.at[left])
        far_right = self.limit * np.abs(self.at[right] - t)
        low = np.maximum(self.low[left] - far_left, self.low[right] - far_right)
        high = np.minimum(self.high[left] + far_left, self.high[right] + far_right)
        drift = self.rate * t
        return np.minimum(low, high) + drift, np.maximum(low, high) + drift


Bounds = tuple[Ints, Ints | None, Ints | None]      # device time, offset at least, at most


def follow(points: Sequence[SyncPoint], *more: Bounds) -> Offsets:
    """Offsets from sync points, at least one, and from further bounds, which may be one-sided.
    Two that contradict each other are both kept, as the ends."""
    ordered = sorted(points, key=lambda p: p.device_ns)
    first, last = ordered[0], ordered[-1]
    zero, base = first.device_ns, (first.low_ns + first.high_ns) // 2
    rate, limit = _rate(first, last)
    table = [(np.array([p.device_ns for p in ordered]), np.array([p.low_ns for p in ordered]),
              np.array([p.high_ns for p in ordered])), *more]
    at = np.concatenate([_relative(t, zero) for t, _, _ in table])
    low = np.concatenate([_relative(x, base, -np.inf, len(t)) for t, x, _ in table])
    high = np.concatenate([_relative(x, base, np.inf, len(t)) for t, _, x in table])
    order = np.argsort(at, kind="stable")
    at, low, high = at[order], low[order] - rate * at[order], high[order] - rate * at[order]
    slope = limit * at
    high = np.minimum(_running_least(high - slope) + slope,
                      _running_least((high + slope)[::-1])[::-1] - slope)
    low = np.maximum(-_running_least(-low - slope) - slope,
                     -_running_least((slope - low)[::-1])[::-1] + slope)
    return Offsets(zero, base, rate, limit, at, np.minimum(low, high), np.maximum(low, high))


def _rate(first: SyncPoint, last: SyncPoint) -> tuple[float, float]:
    """The mean drift between two points, and how far from it the drift may be at any time."""
    apart = last.device_ns - first.device_ns
    if apart <= 0:
        return 0.0, MOST_DRIFT
    moved = (last.low_ns + last.high_ns - first.low_ns - first.high_ns) / 2
    unsure = (last.high_ns - last.low_ns + first.high_ns - first.low_ns) / 2 / apart
    rate = moved / apart
    if unsure + WANDER >= MOST_DRIFT or abs(rate) > MOST_DRIFT:
        return 0.0, MOST_DRIFT
    return rate, WANDER + unsure


def _relative(times: Ints | None, to_ns: int, without: float = 0.0, count: int = 0) -> Floats:
    """Subtracted while they are whole numbers: nanoseconds since 1970 are too many for doubles."""
    return np.full(count, without) if times is None else (times - to_ns).astype(np.float64)


def _running_least(x: Floats) -> Floats:
    return np.minimum.accumulate(x)


def resolution_ns(stamps: Stamps, told_ns: int | None) -> int:
    """The step in which the device's clock counts: as the driver tells, or as its stamps show if
    that is coarser. Some drivers count in floating point and tell 1 ns."""
    seen = np.concatenate([stamps.start, stamps.end])
    seen = seen[seen > 0]
    common = int(np.gcd.reduce(seen - seen[0])) if len(seen) > 2 else 0
    return max(told_ns or 1, common)


def place(stamps: Stamps, points: Sequence[SyncPoint], step_ns: int) -> Placed:
    """Every event on CLOCK_MONOTONIC; those whose times cannot be true are put between their
    neighbours, which on an in-order queue they are. `step_ns` is the clock's resolution."""
    why = _faults_alone(stamps, step_ns)
    good = why == ""
    if points and good.any():
        why = np.where(good, _faults_among(stamps, follow(points), step_ns), why)
        good = why == ""
    elif not points:
        why, good = np.where(good, "the clocks could not be compared", why), np.zeros_like(good)
    start, end = stamps.start.copy(), stamps.end.copy()
    queued, submit = stamps.queued.copy(), stamps.submit.copy()
    error = np.full(len(start), step_ns, np.int64)
    if good.any():
        offset, error[good] = _offsets(stamps, good, points, step_ns)
        for times in (queued, submit, start, end):
            times[good] += offset
    _between_neighbours(stamps, good, start, end, error)
    return Placed(queued, submit, start, end, error, tuple(map(str, why)))


def _faults_alone(stamps: Stamps, step_ns: int) -> NDArray[np.str_]:
    """What is wrong with an event whatever the offset is; empty where nothing is."""
    return np.select(
        [(stamps.start <= 0) | (stamps.end <= 0), stamps.start > stamps.end,
         stamps.end - stamps.start > stamps.before - stamps.after + 2 * step_ns],
        [NO_TIMES, SWAPPED, TOO_LONG], "")


def _faults_among(stamps: Stamps, offsets: Offsets, step_ns: int) -> NDArray[np.str_]:
    """What is wrong with an event, were the offset anywhere within its bounds."""
    _, high = offsets.bounds(stamps.start)
    low, _ = offsets.bounds(stamps.end)
    starts = stamps.start - stamps.after + offsets.base_ns + high + step_ns
    ends = stamps.end - stamps.before + offsets.base_ns + low - step_ns
    return np.select([starts < 0, ends > 0], [TOO_EARLY, TOO_LATE], "")


def _offsets(stamps: Stamps, good: NDArray[np.bool_], points: Sequence[SyncPoint], step_ns: int
             ) -> tuple[Ints, Ints]:
    """One offset for each good event, so that it keeps its length, and how far off it may be."""
    start, end = stamps.start[good], stamps.end[good]
    offsets = follow(points, (start, stamps.after[good] - start - step_ns, None),
                     (end, None, stamps.before[good] - end + step_ns),
                     *_by_queued(stamps, good, points, step_ns))
    (low, high), (late_low, late_high) = offsets.bounds(start), offsets.bounds(end)
    offset = (low + high) / 2
    error = np.maximum.reduce([high - offset, offset - late_low, late_high - offset]) + step_ns
    return (np.rint(offset).astype(np.int64) + offsets.base_ns,
            np.ceil(error).astype(np.int64) + 1)


def _by_queued(stamps: Stamps, good: NDArray[np.bool_], points: Sequence[SyncPoint], step_ns: int
               ) -> Iterator[Bounds]:
    """Bounds from QUEUED of good events, as far as it was found to be on the same clock."""
    compared = [p.queued_off_ns for p in points if p.kind == "write"]
    off = [ns for ns in compared if ns is not None]
    if len(off) < len(compared) or not off:
        return
    queued = stamps.queued[good]
    low = stamps.after[good] - queued - step_ns - min(off)
    high = stamps.flushed[good] - queued + step_ns + min(off)
    known = follow(points)
    least, most = known.bounds(queued)
    agrees = (queued > 0) & (low - known.base_ns <= most) & (high - known.base_ns >= least)
    yield queued[agrees], low[agrees], high[agrees]


def _between_neighbours(stamps: Stamps, good: NDArray[np.bool_], start: Ints, end: Ints,
                        error: Ints) -> None:
    """Events without times of their own run from the last good end to the next good start, and
    within what the host saw."""
    known, bad = np.flatnonzero(good), np.flatnonzero(~good)
    if not len(bad):
        return
    before, after = np.searchsorted(known, bad) - 1, np.searchsorted(known, bad)
    first, last = stamps.after[bad].copy(), stamps.before[bad].copy()
    unsure = np.zeros(len(bad), np.int64)
    if len(known):
        has, next_ = before >= 0, after < len(known)
        left, right = known[np.clip(before, 0, None)], known[np.clip(after, None, len(known) - 1)]
        first = np.where(has, np.maximum(first, end[left]), first)
        last = np.where(next_, np.minimum(last, start[right]), last)
        unsure = np.maximum(np.where(has, error[left], 0), np.where(next_, error[right], 0))
    start[bad], end[bad], error[bad] = first, np.maximum(first, last), unsure
