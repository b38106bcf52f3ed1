"""What bounds each operation: the device's arithmetic, its memory, or merely being launched.

The floor of a launch is what the device's measured peaks allow: its FLOPs at the arithmetic peak or
its bytes at the memory peak, whichever takes longer. Times are own times: an instant in which two
launches run belongs to the first, so that they add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from handtorch.profile.gaps import clipped, own_ns
from handtorch.record import Gap, Launch, Run, Step

Bound = Literal["compute", "memory", "launch", "copy", "unknown"]
HOST, TRANSFER = "host", "transfer"
_TINY = 6.0                                 # launch times; a longer launch is worth its launch
_PEAKS = {"arithmetic peak": "flops_per_s", "memory peak": "bytes_per_s",
          "launch time": "launch_ns"}


@dataclass(frozen=True)
class Peaks:
    """The device at its best, as measured in the run."""

    flops_per_s: float
    bytes_per_s: float
    launch_ns: float

    def compute_ns(self, launch: Launch) -> float:
        return 1e9 * (launch.flops or 0) / self.flops_per_s

    def memory_ns(self, launch: Launch) -> float:
        return self.bytes_ns(launch.moved_bytes or 0)

    def bytes_ns(self, moved_bytes: int) -> float:
        return 1e9 * moved_bytes / self.bytes_per_s

    def floor_ns(self, launch: Launch) -> float:
        return max(self.compute_ns(launch), self.memory_ns(launch))


def peaks_of(run: Run, place: str) -> Peaks | None:
    """None where the run does not hold all three."""
    found = {_PEAKS[r.name]: r.value for r in run.results
             if r.place == place and r.name in _PEAKS and r.value}
    return Peaks(**found) if len(found) == len(_PEAKS) else None


@dataclass(frozen=True)
class Timed:
    """A launch of the place, its own time, and what bounds it."""

    launch: Launch
    start_ns: int
    end_ns: int
    own_ns: int
    floor_ns: float
    bound: Bound


@dataclass(frozen=True)
class StepTimes:
    """One step: its work in order of start, its gaps in order, and the middles of host waits."""

    step: Step
    work: tuple[Timed, ...]
    gaps: tuple[Gap, ...]
    waits: tuple[tuple[int, int], ...]      # start, end

    @property
    def wall_ns(self) -> int:
        return self.step.end_ns - self.step.start_ns

    @property
    def kernels(self) -> tuple[Timed, ...]:
        return tuple(t for t in self.work if t.bound != "copy")


@dataclass(frozen=True)
class OpBound:
    """One operation (node) over all steps: mean own time in a step, and the rates it reached."""

    node: str
    op: str
    kernels: tuple[str, ...]
    layer: str
    phase: str
    source_line: str
    time_ns: float
    launches: float
    floor_ns: float
    bound: Bound

    @property
    def of_peak(self) -> float | None:
        """The share of what the device allows; None where that is not known."""
        return self.floor_ns / self.time_ns if self.floor_ns and self.time_ns else None


def step_times(run: Run, subject: str, place: str, peaks: Peaks | None) -> tuple[StepTimes, ...]:
    """Every step of `subject` at `place` that has launches with times."""
    launches: dict[int, list[Launch]] = {}
    gaps: dict[int, list[Gap]] = {}
    for la in run.launches:
        launches.setdefault(la.step, []).append(la)
    for gap in run.gaps:
        gaps.setdefault(gap.step, []).append(gap)
    found = []
    for step in run.steps:
        if step.subject == subject and step.place == place and step.id in launches:
            work = _work(step, launches[step.id], peaks)
            waits = tuple((la.start_ns, la.end_ns) for la in launches[step.id]
                          if la.lane == HOST and la.op == "wait"
                          and la.start_ns is not None and la.end_ns is not None)
            idle = sorted(gaps.get(step.id, ()), key=lambda g: g.start_ns)
            found.append(StepTimes(step, work, tuple(idle), waits))
    return tuple(s for s in found if s.work)


def _work(step: Step, launches: Sequence[Launch], peaks: Peaks | None) -> tuple[Timed, ...]:
    known = [(la, la.start_ns, la.end_ns) for la in launches
             if la.lane != HOST and la.start_ns is not None and la.end_ns is not None]
    known.sort(key=lambda k: (k[1], k[2], k[0].number))
    spans = clipped([(a, b) for _, a, b in known], (step.start_ns, step.end_ns))
    return tuple(_timed(la, span, own, peaks) for (la, *_), span, own in
                 zip(known, spans, own_ns(spans), strict=True))


def _timed(launch: Launch, span: tuple[int, int], own: int, peaks: Peaks | None) -> Timed:
    floor = peaks.floor_ns(launch) if peaks is not None else 0.0
    return Timed(launch, *span, own, floor, _bound(launch, own, floor, peaks))


def _bound(launch: Launch, own: int, floor: float, peaks: Peaks | None) -> Bound:
    if launch.phase == TRANSFER:
        return "copy"
    if peaks is None:
        return "unknown"
    if floor <= peaks.launch_ns and own <= _TINY * peaks.launch_ns:
        return "launch"
    if launch.flops is None and launch.moved_bytes is None:
        return "unknown"
    return "compute" if peaks.compute_ns(launch) >= peaks.memory_ns(launch) else "memory"


def op_bounds(steps: Sequence[StepTimes]) -> tuple[OpBound, ...]:
    """Longest first; launches of one node belong together, whatever step they are of."""
    nodes: dict[tuple[str, str], list[Timed]] = {}
    for step in steps:
        for timed in step.kernels:
            key = timed.launch.node or f"#{timed.launch.number}", timed.launch.op
            nodes.setdefault(key, []).append(timed)
    made = []
    for (node, op), same in nodes.items():
        first = max(same, key=lambda t: t.own_ns)
        made.append(OpBound(
            node, op, tuple(dict.fromkeys(t.launch.kernel for t in same)), first.launch.layer,
            first.launch.phase, first.launch.source_line,
            sum(t.own_ns for t in same) / len(steps), len(same) / len(steps),
            sum(t.floor_ns for t in same) / len(steps), first.bound))
    return tuple(sorted(made, key=lambda o: -o.time_ns))
