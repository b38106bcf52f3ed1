"""Why is it slow? What bounds every operation, and the three changes that would help most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from handtorch.errors import BadInput
from handtorch.profile import causes
from handtorch.profile.bounds import (
    HOST,
    TRANSFER,
    OpBound,
    Peaks,
    StepTimes,
    op_bounds,
    peaks_of,
    step_times,
)
from handtorch.profile.causes import Change
from handtorch.profile.group import usual
from handtorch.record import Run

_TOP, _OPS = 3, 8
_LEAST = 0.02                               # of a step: a change that saves less is not named
_NO_PEAKS = ("the device's peaks are not in this run: what bounds an operation is not known; "
             "`handtorch profile` measures them, as does run.peaks()")


@dataclass(frozen=True)
class Side:
    """One layer in one phase: mean own time of a step, here and on the CPU by torch."""

    layer: str
    phase: str
    here_ns: float
    torch_ns: float


@dataclass(frozen=True)
class Why:
    """`changes` are by what they save, largest first; those under 2 % of a step are left out."""

    subject: str
    place: str
    steps: int
    step_ns: float
    busy_ns: float
    gaps: dict[str, float]
    peaks: Peaks | None
    ops: tuple[OpBound, ...]
    changes: tuple[Change, ...]
    unknown: tuple[str, ...]
    beside: tuple[Side, ...] = ()

    @property
    def top(self) -> tuple[Change, ...]:
        """The three that would help most, each of another cause."""
        first = {change.cause: change for change in reversed(self.changes)}
        return tuple(c for c in self.changes if first[c.cause] is c)[:_TOP]


def why(run: Run, *, subject: str = "", place: str = "", torch: Run | None = None) -> Why:
    """The answer for one subject at one place, by default the first of the run with launches.

    `torch` is a run of the same model by torch on the CPU (it may be `run` itself), to compare."""
    subject, place = _chosen(run, subject, place)
    peaks = peaks_of(run, place)
    steps = _usual(step_times(run, subject, place, peaks))
    ops, count = op_bounds(steps), len(steps)
    wall = sum(s.wall_ns for s in steps) / count
    idle: dict[str, float] = {}
    for step in steps:
        for gap in step.gaps:
            idle[gap.cause] = idle.get(gap.cause, 0) + (gap.end_ns - gap.start_ns) / count
    beside = _beside(run, steps, torch) if torch is not None else ()
    found = [*_changes(run, place, steps, ops, peaks), *_other_place(torch, place, wall)]
    found = sorted((c for c in found if c.saves_ns >= _LEAST * wall), key=lambda c: -c.saves_ns)
    return Why(subject, place, count, wall,
               sum(t.own_ns for s in steps for t in s.work) / count, idle, peaks, ops,
               tuple(found), tuple(_unknown(run, place, peaks, found)), beside)


def _chosen(run: Run, subject: str, place: str) -> tuple[str, str]:
    timed = {la.step for la in run.launches if la.start_ns is not None}
    for step in run.steps:
        if step.id in timed and subject in ("", step.subject) and place in ("", step.place):
            return step.subject, step.place
    wanted = " ".join(filter(None, (subject, place and f"on {place}"))) or "any step"
    raise BadInput(f"why is {wanted} slow", why="this run has no such step with timed launches",
                   fix="handtorch profile MODEL makes one")


def _usual(steps: Sequence[StepTimes]) -> tuple[StepTimes, ...]:
    """Without warm-up and hiccups."""
    return tuple(compress(steps, usual([s.wall_ns for s in steps])))


def _changes(run: Run, place: str, steps: Sequence[StepTimes], ops: Sequence[OpBound],
             peaks: Peaks | None) -> Iterator[Change]:
    for cause in causes.FROM_STEPS:
        if (change := cause(steps)) is not None:
            yield change
    chained = causes.chained_nodes(steps)
    yield from causes.slow_kernels(ops, chained)
    yield from causes.memory_layers(ops, chained)
    if peaks is not None and (chains := causes.unfused(steps, peaks)) is not None:
        yield chains
    if peaks is not None and (tiny := causes.tiny_launches(steps, peaks)) is not None:
        yield tiny
    if (busy := causes.busy_machine(run, steps, _on_host(run, place))) is not None:
        yield busy


def _on_host(run: Run, place: str) -> bool:
    """Whether the place computes on the host's own cores."""
    kinds = {d.id: d.kind for d in run.devices}
    return any(p.kind == "host cpu" or (p.device is not None and kinds[p.device] == "cpu")
               for p in run.places if p.name == place)


def _other_place(torch: Run | None, place: str, wall_ns: float) -> Iterator[Change]:
    if torch is None:
        return
    times = [s.end_ns - s.start_ns for s in torch.steps if _is_torch(torch, s.place)]
    if times and place not in {s.place for s in torch.steps if _is_torch(torch, s.place)}:
        other = sorted(times)[len(times) // 2]
        if other < wall_ns:
            yield Change("other place", wall_ns - other, f"torch on the CPU takes "
                         f"{other / 1e6:.2f} ms for this step", "run it there")


def _is_torch(run: Run, place: str) -> bool:
    return any(p.name == place and p.kind == "host cpu" for p in run.places)


def _beside(run: Run, steps: Sequence[StepTimes], torch: Run) -> tuple[Side, ...]:
    """Layers of both runs, those in which this place loses most first."""
    here, there = _by_layer(steps), dict[tuple[str, str], float]()
    for name in dict.fromkeys((s.subject, s.place) for s in torch.steps
                              if _is_torch(torch, s.place)):
        there = _by_layer(step_times(torch, *name, None)) or there
    both = [Side(*key, here.get(key, 0.0), there.get(key, 0.0)) for key in here | there]
    return tuple(sorted(both, key=lambda s: s.torch_ns - s.here_ns))


def _by_layer(steps: Sequence[StepTimes]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for step in steps:
        for timed in step.kernels:
            key = timed.launch.layer, timed.launch.phase
            found[key] = found.get(key, 0.0) + timed.own_ns / len(steps)
    return found


def _unknown(run: Run, place: str, peaks: Peaks | None, found: Sequence[Change]) -> Iterator[str]:
    if peaks is None:
        yield _NO_PEAKS
    if reason := _not_spared(run, place):
        yield f"what fusing operations would save: {reason}"
    if causes.cores_of_others(run) is None:
        yield ("what other programs used of the machine: it was not read, or for less than "
               f"{causes.SHORTEST_NS / 1e9:g} s; take more steps")
    if any(change.cause == "busy machine" for change in found):
        yield "how fast operations and kernels are on a free machine: here they shared its cores"


def _not_spared(run: Run, place: str) -> str:
    """Why it is not known what two launches in a row would not move; empty where it is."""
    here = {s.id for s in run.steps if s.place == place}
    asked = [la for la in run.launches if la.step in here and la.lane != HOST
             and la.phase != TRANSFER]
    return "" if any(la.spared_bytes is not None for la in asked) else next(
        (la.spared_reason for la in asked), "")


def told(found: Why) -> str:
    """For the terminal."""
    lines = [f"{found.subject} on {found.place}: a step takes {_ms(found.step_ns)} (mean of "
             f"{found.steps} usual steps), the device works for {_ms(found.busy_ns)} of it "
             f"({100 * found.busy_ns / found.step_ns:.0f} %)"]
    lines.append("What would help most:" if found.top else "Nothing stands out.")
    for number, change in enumerate(found.top, 1):
        share = 100 * change.saves_ns / found.step_ns
        lines += [f"  {number}. saves {_ms(change.saves_ns)} ({share:.0f} %): {change.cause}",
                  f"     {change.what}", f"     try: {change.how}"]
    lines.append("Operations, longest first:")
    for op in found.ops[:_OPS]:
        share = 100 * (op.of_peak or 0.0)
        peak = "" if not share else (f", {share:.0f} % of what the device allows" if share >= 1 else
                                     ", less than 1 % of what the device allows")
        where = ", ".join(filter(None, (op.layer, op.phase, op.source_line)))
        lines.append(f"  {_ms(op.time_ns):>10}  {op.op}: bound by {op.bound}{peak}  ({where})")
    for side in found.beside[:_OPS] if any(s.here_ns > s.torch_ns for s in found.beside) else ():
        lines.append(f"  {side.layer or 'no layer'} ({side.phase}): {_ms(side.here_ns)} here, "
                     f"{_ms(side.torch_ns)} by torch on the CPU")
    return "\n".join([*lines, *(f"Not known: {reason}" for reason in found.unknown)])


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms" if ns < 1e7 else f"{ns / 1e6:.1f} ms"
