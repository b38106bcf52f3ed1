"""The launches of a run by what they belong to, each with its own time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from handtorch.profile.collect import HOST
from handtorch.profile.gaps import CAUSES, clipped, own_ns
from handtorch.record import Launch, Run, Step

USUAL = 2                                   # times the median: what takes longer is a hiccup


@dataclass
class Line:
    """One line of a table: own time of its launches, which adds up to the device's busy time."""

    ns: int = 0
    launches: int = 0
    work_ns: int = 0
    flops: int = 0
    moved_bytes: int = 0
    phases: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, launch: Launch, own: int) -> None:
        self.ns += own
        self.launches += 1
        self.phases[launch.phase] += own
        assert launch.start_ns is not None and launch.end_ns is not None
        self.work_ns += launch.end_ns - launch.start_ns
        self.flops += launch.flops or 0
        self.moved_bytes += launch.moved_bytes or 0


@dataclass(frozen=True)
class Group:
    """All steps of one subject at one place, with the own time of every launch of the device."""

    steps: tuple[Step, ...]
    launches: tuple[tuple[Launch, int], ...]
    idle: dict[str, int]

    @property
    def wall_ns(self) -> int:
        return sum(s.end_ns - s.start_ns for s in self.steps)

    @property
    def busy_ns(self) -> int:
        return sum(own for _, own in self.launches)

    def lines(self, key: Callable[[Launch], str]) -> dict[str, Line]:
        """By key, those that took most first."""
        found: dict[str, Line] = defaultdict(Line)
        for launch, own in self.launches:
            found[key(launch)].add(launch, own)
        return dict(sorted(found.items(), key=lambda kv: (-kv[1].ns, kv[0])))


def usual(walls_ns: Sequence[int]) -> list[bool]:
    """Which steps are neither warm-up nor hiccup: those of at most twice the median."""
    most = USUAL * sorted(walls_ns)[len(walls_ns) // 2]
    return [wall <= most for wall in walls_ns]


def groups(run: Run, only_usual: bool = False) -> list[Group]:
    """Steps by subject and place, those without launches left out."""
    by_step: dict[int, list[Launch]] = defaultdict(list)
    for la in run.launches:
        if la.lane != HOST and la.start_ns is not None and la.end_ns is not None:
            by_step[la.step].append(la)
    of: dict[tuple[str, str], list[Step]] = {}
    for step in run.steps:
        if by_step[step.id]:
            of.setdefault((step.subject, step.place), []).append(step)
    if only_usual:
        of = {key: list(compress(steps, usual([s.end_ns - s.start_ns for s in steps])))
              for key, steps in of.items()}
    return [_group(run, steps, by_step) for steps in of.values()]


def _group(run: Run, steps: Sequence[Step], by_step: dict[int, list[Launch]]) -> Group:
    launches: list[tuple[Launch, int]] = []
    for step in steps:
        found = by_step[step.id]
        spans = [(la.start_ns or 0, la.end_ns or 0) for la in found]
        own = own_ns(clipped(spans, (step.start_ns, step.end_ns)))
        launches += zip(found, own, strict=True)
    ids, idle = {s.id for s in steps}, dict.fromkeys(CAUSES, 0)
    for gap in run.gaps:
        if gap.step in ids:
            idle[gap.cause] = idle.get(gap.cause, 0) + gap.end_ns - gap.start_ns
    return Group(tuple(steps), tuple(launches), idle)
