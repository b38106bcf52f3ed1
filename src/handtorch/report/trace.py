"""A run as tracks on one time axis: what both trace formats are written from.

Every place is a group of tracks: its steps, each lane of its launches, its idle time by cause, and
its memory by role; the meters of the run are a group of their own. Times are CLOCK_MONOTONIC in ns;
what has no time there (a clock of unknown offset, a garbled stamp) is left out and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from handtorch.errors import BadInput
from handtorch.record import Gap, Launch, Memory, Run, Sample, Step

Args = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took its time, with what there is to say of it."""

    start_ns: int
    end_ns: int
    name: str
    category: str
    args: Args = ()


@dataclass(frozen=True)
class Track:
    """Spans by start, none of which begins before the one before it has ended."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Level:
    """A quantity that holds each value until the next; `is_bytes` or in the unit its name ends in.
    """

    name: str
    is_bytes: bool
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Group:
    name: str
    tracks: tuple[Track, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Trace:
    """Groups in the order of the run, and how many launches and samples have no time."""

    groups: tuple[Group, ...]
    left_out: int

    def spans(self) -> Iterator[Span]:
        for group in self.groups:
            for track in group.tracks:
                yield from track.spans


def trace_of(run: Run) -> Trace:
    """The tracks of `run`; refuses one in which nothing lies on a time axis."""
    axis = _Axis(run)
    places = dict.fromkeys(step.place for step in run.steps)
    groups = [axis.group(run, place) for place in places]
    groups.append(Group("meters", (), tuple(axis.meters(run.samples))))
    made = Trace(tuple(g for g in groups if g.tracks or g.levels), axis.left_out)
    if not any(made.spans()):
        raise BadInput(f"a trace of {run.info.command!r}", why="no step of this run has a time",
                       fix="handtorch profile MODEL makes a run that has")
    return made


class _Axis:
    """Stamps of the run's clocks put on CLOCK_MONOTONIC."""

    def __init__(self, run: Run) -> None:
        self._offset = {clock.name: clock.offset_ns for clock in run.clocks}
        self.left_out = 0

    def group(self, run: Run, place: str) -> Group:
        steps = {s.id: s for s in run.steps if s.place == place}
        lanes: dict[str, list[Span]] = {"steps": list(self._steps(steps.values()))}
        starts: dict[tuple[int, int], int] = {}
        for launch in run.launches:
            if launch.step in steps and (span := self._launch(launch)) is not None:
                lanes.setdefault(launch.lane, []).append(span)
                starts[launch.step, launch.number] = span.start_ns
        lanes["idle"] = list(self._gaps(g for g in run.gaps if g.step in steps))
        tracks = [track for name, spans in lanes.items() for track in _apart(name, spans)]
        levels = _memory([m for m in run.memory if m.place == place and m.moment == "launch"],
                         steps.values(), starts)
        return Group(place, tuple(tracks), tuple(levels))

    def meters(self, samples: Sequence[Sample]) -> Iterator[Level]:
        points: dict[str, list[tuple[int, float]]] = {}
        for sample in samples:
            if sample.value is None or (offset := self._offset.get(sample.clock)) is None:
                self.left_out += 1
                continue
            name = f"{sample.meter} {sample.quantity}"
            points.setdefault(name, []).append((sample.time_ns + offset, sample.value))
        for name, found in points.items():
            yield Level(name, name.endswith("_bytes"), tuple(sorted(found)))

    def _steps(self, steps: Iterable[Step]) -> Iterator[Span]:
        for step in steps:
            offset = self._offset.get(step.clock)
            if offset is not None:
                yield Span(step.start_ns + offset, step.end_ns + offset, f"step {step.number}",
                           step.kind, (("subject", step.subject),))

    def _launch(self, launch: Launch) -> Span | None:
        offset = self._offset.get(launch.clock)
        if offset is None or launch.start_ns is None or launch.end_ns is None:
            self.left_out += 1
            return None
        said = (("op", launch.op if launch.op != launch.kernel else ""), ("layer", launch.layer),
                ("line", launch.source_line), ("flops", launch.flops),
                ("bytes", launch.moved_bytes),
                ("time", "bounded" if launch.quality == "bounded" else ""))
        args = tuple((name, value) for name, value in said if value)
        return Span(launch.start_ns + offset, launch.end_ns + offset, launch.kernel, launch.phase,
                    args)

    def _gaps(self, gaps: Iterable[Gap]) -> Iterator[Span]:
        for gap in gaps:
            offset = self._offset.get(gap.clock)
            if offset is not None:
                yield Span(gap.start_ns + offset, gap.end_ns + offset, gap.cause, "idle")


def _apart(name: str, spans: list[Span]) -> Iterator[Track]:
    """Viewers want spans of a track to nest; what overlaps goes to a further track of the name."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.start_ns, s.end_ns)):
        free = next((row for row in rows if row[-1].end_ns <= span.start_ns), None)
        if free is None:
            rows.append([span])
        else:
            free.append(span)
    for number, row in enumerate(rows, 1):
        yield Track(name if number == 1 else f"{name} {number}", tuple(row))


def _memory(rows: Sequence[Memory], steps: Iterable[Step], starts: dict[tuple[int, int], int]
            ) -> Iterator[Level]:
    """Bytes by role as the launches of each step find them, where they change."""
    steps = list(steps)
    for role in dict.fromkeys(m.role for m in rows):
        same = [m for m in rows if m.role == role]
        points = sorted((starts[step.id, m.launch], float(m.bytes))
                        for step in steps for m in same
                        if m.subject == step.subject and m.launch is not None
                        and m.bytes is not None and (step.id, m.launch) in starts)
        changed = [b for a, b in pairwise([(0, -1.0), *points]) if a[1] != b[1]]
        if changed:
            yield Level(f"memory: {role}", True, tuple(changed))
