"""Do a driver's event times tell the truth? Every launch alone, held against the host's clock.

In a profile launches are queued, and only the driver knows when each began and ended. Here each is
enqueued on an idle queue and waited for, so the host's own clock sees all of it, and the wait: what
a wait costs is what it costs for a launch that does nothing. Times of a launch are the best of all
steps, so that another program's time slice is not taken for a lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from handtorch.profile.columns import table
from handtorch.record import Result

Verdict = Literal["agrees", "no times", "too long", "too short", "queued longer", "queued shorter",
                  "too brief to judge", "woken late"]
WITHIN = 0.10
# Queued, a launch finds caches warm and threads awake, as its neighbour left them.
_QUEUED_WITHIN = 0.25
_TOP = 15
_BUSY_CORES = 0.2               # of other programs: more, and who waits is woken late
_MEANS: dict[Verdict, str] = {
    "no times": "the driver gave no times, or an END before its START",
    "too long": "events last longer than the host waited for them",
    "too short": "events last less than the host waited, by more than a wait costs",
    "queued longer": "queued, events last longer than alone: START may be when it was submitted",
    "queued shorter": "queued, events last less than alone"}


@dataclass(frozen=True)
class Wait:
    """What enqueuing a launch and waiting for it costs beside the launch, and how much that varies.
    """

    ns: float
    unsure_ns: float


@dataclass(frozen=True)
class Spans:
    """The best time of one launch: its event's queued and alone, and the host's around it; None
    where the driver's times were never good."""

    kernel: str
    queued_ns: int | None
    alone_ns: int | None
    window_ns: int


@dataclass(frozen=True)
class Checked:
    """All launches of one kernel in a step. `host_ns` is the host's time without the waits; it may
    be off by `unsure_ns`."""

    kernel: str
    launches: int
    queued_ns: int | None
    alone_ns: int | None
    window_ns: int
    host_ns: float
    unsure_ns: float
    busy: bool = False                      # with other programs, while it ran

    @property
    def verdict(self) -> Verdict:
        if self.alone_ns is None or self.queued_ns is None:
            return "no times"
        if self.alone_ns > self.window_ns + self.unsure_ns:
            return "too long"
        if self.unsure_ns > max(self.host_ns, self.alone_ns) / 2:
            return "too brief to judge"
        if self.alone_ns < (1 - WITHIN) * self.host_ns - self.unsure_ns:
            return "woken late" if self.busy else "too short"
        if self.queued_ns > (1 + _QUEUED_WITHIN) * self.alone_ns + self.unsure_ns:
            return "queued longer"
        if self.queued_ns < (1 - _QUEUED_WITHIN) * self.alone_ns - self.unsure_ns:
            return "queued shorter"
        return "agrees"


@dataclass(frozen=True)
class Check:
    """By kernel, longest first, and of all together."""

    subject: str
    place: str
    steps: int
    wait: Wait
    kernels: tuple[Checked, ...]
    total: Checked
    others_cores: float | None              # that other programs used meanwhile; None: not known

    @property
    def lies(self) -> tuple[Checked, ...]:
        return tuple(k for k in (*self.kernels, self.total) if k.verdict in _MEANS)


def best(rows: Iterable[Sequence[tuple[int, int]]]) -> list[int | None]:
    """By place in the step the shortest length of (start, end); a row may be the beginning of a
    step. None where no row has a start and an end after it."""
    found: list[int | None] = []
    for row in rows:
        found += [None] * (len(row) - len(found))
        for i, (start, end) in enumerate(row):
            before = found[i]
            if 0 < start <= end and (before is None or end - start < before):
                found[i] = end - start
    return found


def checked(subject: str, place: str, steps: int, launches: Sequence[Spans], wait: Wait,
            clock_step_ns: int = 1, others_cores: float | None = None) -> Check:
    """`clock_step_ns` is how coarsely the device's clock counts. Where other programs compute, a
    host that saw more than the event is no proof: it waits for its turn after the wait."""
    busy = others_cores is not None and others_cores > _BUSY_CORES
    kernels: dict[str, list[Spans]] = {}
    for launch in launches:
        kernels.setdefault(launch.kernel, []).append(launch)
    rows = [_together(name, same, wait, clock_step_ns, busy) for name, same in kernels.items()]
    rows.sort(key=lambda k: -k.window_ns)
    return Check(subject, place, steps, wait, tuple(rows),
                 _together("all", launches, wait, clock_step_ns, busy), others_cores)


def _together(name: str, same: Sequence[Spans], wait: Wait, clock_step_ns: int,
              busy: bool) -> Checked:
    def total(times: Iterable[int | None]) -> int | None:
        known = list(times)
        return None if None in known else sum(t for t in known if t is not None)
    window = sum(s.window_ns for s in same)
    return Checked(name, len(same), total(s.queued_ns for s in same),
                   total(s.alone_ns for s in same), window,
                   sum(max(0.0, s.window_ns - wait.ns) for s in same),
                   len(same) * (wait.unsure_ns + clock_step_ns), busy)


def told(found: Check) -> str:
    """For the terminal."""
    wait = (f"a wait costs {found.wait.ns / 1000:.1f} us, give or take "
            f"{found.wait.unsure_ns / 1000:.1f}")
    lines = [f"Event times of {found.subject} on {found.place}, every launch waited for, the best "
             f"of {found.steps} steps; {wait}"]
    shown = [*found.kernels[:_TOP], found.total]
    lines.append(table(
        ("kernel", "launches", "queued ms", "alone ms", "host ms", "unsure", ""),
        [(k.kernel, str(k.launches), _ms(k.queued_ns), _ms(k.alone_ns), _ms(k.host_ns),
          _ms(k.unsure_ns), k.verdict) for k in shown]))
    bad = dict.fromkeys(k.verdict for k in found.lies)
    lines += [f"Doubtful: {', '.join(k.kernel for k in found.lies if k.verdict == verdict)}: "
              f"{_MEANS[verdict]}" for verdict in bad]
    late = [k.kernel for k in shown if k.verdict == "woken late"]
    if late:
        lines.append(f"Not judged: {', '.join(late)}: other programs used {found.others_cores:.1f} "
                     "cores, and a host that waits is woken late; again on a free machine")
    if not bad and not late:
        lines.append("The driver's event times agree with the host's clock.")
    return "\n".join(lines)


def rows_of(found: Check, study: str) -> Iterable[Result]:
    """Times of all launches of a step, each the best it had, and how many kernels are doubtful."""
    total = found.total

    def row(name: str, value: float | None, unit: str) -> Result:
        return Result(study=study, name=f"check: {name}", subject=found.subject,
                      place=found.place, value=value, unit=unit, better="lower",
                      value_reason="" if value is not None else _MEANS["no times"],
                      repeats=1, provenance="measured")
    for name, ns in (("events, queued", total.queued_ns), ("events, alone", total.alone_ns),
                     ("host, alone", total.host_ns), ("host, unsure", total.unsure_ns)):
        yield row(name, None if ns is None else ns / 1e6, "ms")
    yield row("doubtful kernels", sum(k is not total for k in found.lies), "kernels")


def _ms(ns: float | None) -> str:
    return "none" if ns is None else f"{ns / 1e6:.3f}"
