"""The step of median time of each subject, and which kernels its time went to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.record import Launch, Run, Step
from handtorch.report.spell import MISSING, duration, esc, number
from handtorch.report.tables import table, text_cell

_MOST_KERNELS = 12
PHASES = ("forward", "backward", "optimizer", "transfer")


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


def breakdowns(run: Run) -> str:
    """Where a step's time goes, for each subject and place: a bar of phases and of idle time."""
    steps: dict[tuple[str, str], list[Step]] = {}
    for step in run.steps:
        steps.setdefault((step.subject, step.place), []).append(step)
    work: dict[int, dict[str, int]] = {}
    for la in run.launches:
        if la.lane != "host" and la.start_ns is not None and la.end_ns is not None:
            spent = work.setdefault(la.step, {})
            spent[la.phase] = spent.get(la.phase, 0) + la.end_ns - la.start_ns
    for gap in run.gaps:
        spent = work.setdefault(gap.step, {})
        cause = f"idle: {gap.cause}"
        spent[cause] = spent.get(cause, 0) + gap.end_ns - gap.start_ns
    bars = [_breakdown(key, [work[s.id] for s in same if s.id in work])
            for key, same in steps.items() if any(s.id in work for s in same)]
    return "".join(bars)


def _breakdown(key: tuple[str, str], steps: Sequence[dict[str, int]]) -> str:
    names = dict.fromkeys(name for spent in steps for name in spent)
    mean = {name: sum(spent.get(name, 0) for spent in steps) / len(steps) for name in names}
    shown = sorted((n for n in mean if mean[n] > 0),
                   key=lambda n: (n.startswith("idle"), PHASES.index(n) if n in PHASES else 9))
    whole = sum(mean.values()) or 1
    css = {n: "g2" if n.startswith("idle") else f"c{PHASES.index(n) if n in PHASES else 5}"
           for n in shown}
    bits = "".join(f'<i class="{css[n]}" style="width:{100 * mean[n] / whole:.3f}%" title="'
                   f'{esc(n)}: {duration(mean[n])} a step, {100 * mean[n] / whole:.1f} %"></i>'
                   for n in shown)
    keys = "".join(f'<li><i class="{css[n]}"></i>{esc(n)} {duration(mean[n])}</li>' for n in shown)
    return (f'<figure class="chart"><figcaption class="ylabel">Where a step of {esc(key[0])} on '
            f'{esc(key[1])} spends its time<span>, mean of {len(steps):,} steps</span></figcaption>'
            f'<div class="stack">{bits}</div><ul class="legend always">{keys}</ul></figure>')


def said(timed: TimedStep) -> str:
    """How busy the device was in this step, in a sentence."""
    begin, end = timed.span_ns
    share = 100 * timed.busy_ns / max(end - begin, 1)
    text = (f"In step {timed.step.number:,}, the one of median time among those recorded, the "
            f"device was busy for {duration(timed.busy_ns)} of {duration(end - begin)} "
            f"({share:.0f} %), in {len(timed.launches):,} launches.")
    if timed.untimed:
        text += f" {timed.untimed:,} more have no usable time stamps."
    return f"<p>{text}</p>"


def _start(launch: Launch) -> int:
    assert launch.start_ns is not None
    return launch.start_ns


def _end(launch: Launch) -> int:
    assert launch.end_ns is not None
    return launch.end_ns


def _rate(counts: Sequence[int | None], ns: int) -> str:
    """Work over time in units of 1e9 a second; a dash where one count is unknown."""
    known = [c for c in counts if c is not None]
    return number(sum(known) / ns) if len(known) == len(counts) and ns else MISSING
