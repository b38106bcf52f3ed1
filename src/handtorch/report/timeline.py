"""The launches of one step on a time axis, and where the step's time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.record import Launch, Run, Step
from handtorch.report.spell import MISSING, duration, esc, number
from handtorch.report.tables import table, text_cell

_MOST_DRAWN = 4000
_MOST_KERNELS = 12
_PHASES = ("forward", "backward", "optimizer", "transfer")
_LANE_PX = 26


@dataclass(frozen=True)
class TimedStep:
    """A step and those of its launches whose times are known, by start."""

    step: Step
    launches: tuple[Launch, ...]
    untimed: int

    @property
    def span_ns(self) -> tuple[int, int]:
        """First start to last end of the launches, on their own clock."""
        return (min(_start(la) for la in self.launches), max(_end(la) for la in self.launches))

    @property
    def busy_ns(self) -> int:
        """The union of the launches' intervals: overlapping launches are not counted twice."""
        total, reached = 0, self.span_ns[0]
        for launch in self.launches:
            total += max(0, _end(launch) - max(_start(launch), reached))
            reached = max(reached, _end(launch))
        return total


def middle_steps(run: Run) -> tuple[TimedStep, ...]:
    """For each subject and place with launches, the step of median time among those recorded.

    What the host did to feed it is left out."""
    by_step: dict[int, list[Launch]] = {}
    for launch in run.launches:
        if launch.lane == "host":
            continue
        by_step.setdefault(launch.step, []).append(launch)
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in run.steps:
        timed = any(la.end_ns is not None for la in by_step.get(step.id, ()))
        if timed:
            groups.setdefault((step.subject, step.place), []).append(step)
    chosen = []
    for steps in groups.values():
        steps.sort(key=lambda s: s.end_ns - s.start_ns)
        step = steps[len(steps) // 2]
        known = [la for la in by_step[step.id] if la.start_ns is not None and la.end_ns is not None]
        known.sort(key=lambda la: (_start(la), la.number))
        chosen.append(TimedStep(step, tuple(known), len(by_step[step.id]) - len(known)))
    return tuple(chosen)


def timeline(timed: TimedStep) -> str:
    """One step drawn to scale: a block per launch, coloured by phase, beside others if parallel."""
    begin, end = timed.span_ns
    longest = sorted(timed.launches, key=lambda la: _start(la) - _end(la))[:_MOST_DRAWN]
    lanes = _lanes(sorted(longest, key=lambda la: (_start(la), la.number)))
    total = max(end - begin, 1)
    phases = _phase_colours(timed.launches)
    blocks = []
    for lane, row in enumerate(lanes):
        for la in row:
            x, width = (_start(la) - begin) / total, (_end(la) - _start(la)) / total
            blocks.append(f'<rect class="{phases[la.phase]}" x="{1000 * x:.2f}" '
                          f'y="{lane * _LANE_PX + 2}" width="{max(1000 * width, 0.6):.2f}" '
                          f'height="{_LANE_PX - 4}"><title>{esc(_hover(la))}</title></rect>')
    height = _LANE_PX * len(lanes)
    keys = "".join(f'<li><i class="{css}"></i>{esc(phase) or MISSING}</li>'
                   for phase, css in phases.items())
    return (f'<div class="chart"><svg class="timeline" style="height:{height}px" role="img" '
            f'viewBox="0 0 1000 {height}" preserveAspectRatio="none" aria-label="Timeline of '
            f'{len(longest)} launches. The table below sums them up.">{"".join(blocks)}</svg>'
            f'<div class="ends"><span>0</span><span>{duration(total / 2)}</span>'
            f"<span>{duration(total)}</span></div>"
            f'<ul class="legend always">{keys}</ul></div>{_said(timed, len(longest))}')


def kernel_table(timed: TimedStep) -> str:
    """The kernels of the step by their share of the launches' time, with the rates they reached."""
    groups: dict[str, list[Launch]] = {}
    for launch in timed.launches:
        groups.setdefault(launch.kernel, []).append(launch)
    total = sum(_end(la) - _start(la) for la in timed.launches) or 1
    rows = []
    for kernel, same in groups.items():
        ns = sum(_end(la) - _start(la) for la in same)
        rows.append((ns, [esc(kernel), text_cell(", ".join(dict.fromkeys(la.phase for la in same))),
                          f"{len(same):,}", duration(ns), f"{100 * ns / total:.1f} %",
                          _rate([la.flops for la in same], ns),
                          _rate([la.moved_bytes for la in same], ns)]))
    rows.sort(key=lambda pair: -pair[0])
    caption = "Kernels of this step, longest first"
    if len(rows) > _MOST_KERNELS:
        caption += f" ({_MOST_KERNELS} of {len(rows)})"
    return table(caption, ["kernel", "phase", "launches", "time", "share", "GFLOPS", "GB/s"],
                 [row for _, row in rows[:_MOST_KERNELS]])


def _said(timed: TimedStep, drawn: int) -> str:
    begin, end = timed.span_ns
    share = 100 * timed.busy_ns / max(end - begin, 1)
    text = (f"The device was busy for {duration(timed.busy_ns)} of {duration(end - begin)} "
            f"({share:.0f} %), in {len(timed.launches):,} launches.")
    if drawn < len(timed.launches):
        text += f" Only the {drawn:,} longest are drawn."
    if timed.untimed:
        text += f" {timed.untimed:,} more have no usable time stamps."
    return f"<p>{text}</p>"


def _start(launch: Launch) -> int:
    assert launch.start_ns is not None
    return launch.start_ns


def _end(launch: Launch) -> int:
    assert launch.end_ns is not None
    return launch.end_ns


def _lanes(launches: Sequence[Launch]) -> list[list[Launch]]:
    """Launches laid so that none covers another of its lane; one lane when they run in turn."""
    lanes: list[list[Launch]] = []
    for launch in launches:
        free = next((row for row in lanes if _end(row[-1]) <= _start(launch)), None)
        if free is None:
            lanes.append([launch])
        else:
            free.append(launch)
    return lanes


def _phase_colours(launches: Sequence[Launch]) -> dict[str, str]:
    found = dict.fromkeys(la.phase for la in launches)
    known = [p for p in _PHASES if p in found] + [p for p in found if p not in _PHASES]
    others = iter(range(len(_PHASES), 10_000))
    return {p: f"c{(_PHASES.index(p) if p in _PHASES else next(others)) % 10}" for p in known}


def _hover(launch: Launch) -> str:
    parts = [f"{launch.kernel}: {duration(_end(launch) - _start(launch))}", launch.op, launch.layer,
             launch.phase, launch.source_line]
    return ", ".join(p for p in parts if p)


def _rate(counts: Sequence[int | None], ns: int) -> str:
    """Work over time in units of 1e9 a second; a dash where one count is unknown."""
    known = [c for c in counts if c is not None]
    return number(sum(known) / ns) if len(known) == len(counts) and ns else MISSING
