"""Scripted days: how the load of two places changes, written down before any policy was judged.

A day is ten minutes long. TUNING days are what `policy.RULES` and the constants of `estimate` were
set on; JUDGING days are for the verdict alone and were never looked at while those were set."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Track:
    """Load of one place over a segment: from `start` to `end`, broken by bursts.

    With `dwell_s` the load jumps between the line and `burst` after random times of that mean.
    `slow` makes every call longer without any load that could be read: heat, a lower clock."""

    start: float
    end: float | None = None
    burst: float = 0.0
    dwell_s: float = 0.0
    slow: float = 1.0


@dataclass(frozen=True)
class Segment:
    seconds: float
    cpu: Track
    device: Track


@dataclass(frozen=True)
class Day:
    """What happens, with the seed of its random parts; a call is made every `every_s` or later."""

    name: str
    seed: int
    segments: tuple[Segment, ...]
    every_s: float = 0.100

    @property
    def seconds(self) -> float:
        return sum(segment.seconds for segment in self.segments)


QUIET = Track(0.05)
TUNING = (
    Day("commute", 11, (
        Segment(150, Track(0.10), Track(0.10, burst=0.80, dwell_s=3)),
        Segment(150, Track(0.05), QUIET),
        Segment(150, Track(0.60), Track(0.20)),
        Segment(150, Track(0.15, burst=0.70, dwell_s=6), Track(0.35)),
    )),
    Day("video call", 12, (
        Segment(120, Track(0.35), Track(0.50)),
        Segment(180, Track(0.30), Track(0.50, 0.88)),
        Segment(120, Track(0.40, burst=0.80, dwell_s=4), Track(0.85)),
        Segment(180, Track(0.30, 0.05), Track(0.85, 0.10)),
    )),
    Day("hot afternoon", 13, (
        Segment(120, QUIET, Track(0.20)),
        Segment(180, Track(0.10, slow=1.2), Track(0.20, slow=2.0)),
        Segment(120, Track(0.20), Track(0.30)),
        Segment(180, Track(0.10, burst=0.60, dwell_s=2), Track(0.15, burst=0.75, dwell_s=2)),
    )),
)
JUDGING = (
    Day("game in the evening", 21, (
        Segment(90, Track(0.15), QUIET),
        Segment(270, Track(0.40), Track(0.30, burst=0.85, dwell_s=8)),
        Segment(150, Track(0.35, burst=0.55, dwell_s=3), Track(0.78)),
        Segment(90, QUIET, Track(0.10)),
    )),
    Day("updates at night", 22, (
        Segment(200, Track(0.85), Track(0.10, burst=0.60, dwell_s=5)),
        Segment(150, Track(0.82), Track(0.86)),
        Segment(100, Track(0.80, 0.05), Track(0.80, 0.05)),
        Segment(150, QUIET, QUIET),
    )),
    Day("restless", 23, (
        Segment(200, Track(0.05, burst=0.85, dwell_s=5), Track(0.05, burst=0.85, dwell_s=2)),
        Segment(120, Track(0.10), Track(0.10, slow=1.9)),
        Segment(280, Track(0.20, burst=0.70, dwell_s=4), Track(0.10, burst=0.80, dwell_s=4)),
    )),
)


@dataclass(frozen=True)
class Now:
    """A moment of one place: the load that others make, and how much slower it is besides."""

    share: float
    slow: float


class Course:
    """One place's day, known at every moment; the same for the same seed."""

    def __init__(self, day: Day, place: str) -> None:
        draw = random.Random(f"{day.seed} {place}")
        self._tracks = [(s.seconds, s.device if place == "device" else s.cpu)
                        for s in day.segments]
        self._ends = list(accumulate(seconds for seconds, _ in self._tracks))
        self._jumps = [list(_jumps(track, seconds, draw)) for seconds, track in self._tracks]

    def at(self, seconds: float) -> Now:
        """The state `seconds` after the day's beginning; after its end the last one stays."""
        k = min(bisect_right(self._ends, seconds), len(self._ends) - 1)
        whole, track = self._tracks[k]
        inside = min(seconds - (self._ends[k] - whole), whole)
        end = track.start if track.end is None else track.end
        share = track.start + (end - track.start) * inside / whole
        if bisect_right(self._jumps[k], inside) % 2:
            share = track.burst
        return Now(share, track.slow)


def _jumps(track: Track, seconds: float, draw: random.Random) -> Iterator[float]:
    at = 0.0
    while track.dwell_s and (at := at + draw.expovariate(1 / track.dwell_s)) < seconds:
        yield at


