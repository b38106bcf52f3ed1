"""A profile as text for a terminal, from the rows of its run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from handtorch.profile.collect import DEVICE_CLOCK
from handtorch.profile.columns import table
from handtorch.profile.energy import told
from handtorch.profile.group import Group, Line, groups
from handtorch.profile.memory import ROLES, SLACK
from handtorch.profile.predict import WILD
from handtorch.profile.sensed import MISSED, OWN_CPU, SAMPLER
from handtorch.profile.summary import CPU, STUDY, WALL
from handtorch.profile.usage import CORES_USED, NEXT_USE, UTILISATION
from handtorch.record import Result, Run, Step

MEANING = {
    "dispatch": "torch between two operations: Python, autograd, and the stamps",
    "input": "the caller had not called yet: its data, its own code",
    "staging": "the host checked the batch and copied it in",
    "enqueue": "the host was still enqueuing",
    "launch": "handed over, not yet started: driver and device",
    "wake": "done, and the waiting host had not noticed",
    "profiler": "this profile: clocks compared, times read",
    "other": "not known",
}
_TOP = 12
_PHASES = ("forward", "backward", "recompute", "optimizer", "transfer")


def text(run: Run) -> str:
    """Everything a terminal shows of a profile."""
    parts = [part for group in groups(run, only_usual=True) for part in _of_group(run, group)]
    if missing := _missing(run):
        parts.append(missing)
    return "\n\n".join(parts) + "\n"


def _of_group(run: Run, group: Group) -> Iterator[str]:
    yield _head(run, group)
    yield _where(group)
    yield _phases(group)
    yield _kernels(group)
    yield _layers(group)
    if memory := _memory(run, group.steps[0]):
        yield memory
    if rates := _peaks(run, group.steps[0].place):
        yield rates
    if used := _usage(run, group.steps[0]):
        yield used
    yield from told.told(run, group)
    yield _trust(run, group)


def _head(run: Run, group: Group) -> str:
    step = group.steps[0]
    figures = {r.name: r for r in run.results
               if r.study == STUDY and (r.subject, r.place) == (step.subject, step.place)}
    walls = [s.end_ns - s.start_ns for s in run.steps
             if (s.subject, s.place) == (step.subject, step.place)]
    lines = [f"{step.subject} on {step.place}, {step.kind}: {len(walls)} steps recorded, median "
             f"{median(walls) / 1e6:.3f} ms"]
    if (time := figures.get("step time")) is not None and time.spread is not None:
        lines[0] += f", middle half within {time.spread:.3f} ms"
    if (rate := figures.get("throughput")) is not None and rate.value is not None:
        lines.append(f"{rate.value:,.1f} samples a second (median)")
    count = len(group.steps)
    which = f"all {count} steps" if count == len(walls) else (
        f"{count} usual steps (the others took more than twice the median)")
    lines.append(f"Below are means of {which}: {_ms(group.wall_ns, count)} ms each, the device "
                 f"busy {100 * group.busy_ns / max(group.wall_ns, 1):.1f} % of the time")
    return "\n".join(lines)


def _where(group: Group) -> str:
    steps, wall = len(group.steps), max(group.wall_ns, 1)
    rows = [("device busy", _ms(group.busy_ns, steps), _share(group.busy_ns, wall), "")]
    rows += [(f"gap: {cause}", _ms(ns, steps), _share(ns, wall), MEANING.get(cause, ""))
             for cause, ns in sorted(group.idle.items(), key=lambda kv: -kv[1]) if ns]
    rows.append(("step", _ms(group.wall_ns, steps), _share(group.wall_ns, wall), ""))
    return table(("where a step's time goes", "ms", "share", ""), rows)


def _phases(group: Group) -> str:
    found, busy = group.lines(lambda la: la.phase), max(group.busy_ns, 1)
    order = sorted(found, key=lambda p: _PHASES.index(p) if p in _PHASES else len(_PHASES))
    return table(("phase", "ms", "of busy", "launches"),
                 [(p, _ms(found[p].ns, len(group.steps)), _share(found[p].ns, busy),
                   _count(found[p].launches, group)) for p in order])


def _kernels(group: Group) -> str:
    found, busy = group.lines(lambda la: la.kernel), max(group.busy_ns, 1)
    rows = [(k, _ms(line.ns, len(group.steps)), _share(line.ns, busy),
             _count(line.launches, group), _rate(line.flops, line.work_ns),
             _rate(line.moved_bytes, line.work_ns)) for k, line in list(found.items())[:_TOP]]
    return table(("kernel", "ms", "of busy", "launches", "GFLOP/s", "GB/s"),
                 _with_rest(rows, found, group))


def _layers(group: Group) -> str:
    found = group.lines(lambda la: la.layer or f"({la.phase})")
    steps, busy = len(group.steps), max(group.busy_ns, 1)
    rows = [(k, _ms(line.ns, steps), _share(line.ns, busy),
             *(_ms(line.phases[p], steps) if line.phases[p] else "" for p in _PHASES[:2]),
             _count(line.launches, group)) for k, line in list(found.items())[:_TOP]]
    return table(("layer", "ms", "of busy", "forward", "backward", "launches"),
                 _with_rest(rows, found, group))


def _with_rest(rows: Sequence[Sequence[str]], found: dict[str, Line], group: Group
               ) -> list[Sequence[str]]:
    """What the table leaves out, as its last line."""
    rest = list(found.values())[_TOP:]
    if not rest:
        return list(rows)
    ns = sum(line.ns for line in rest)
    return [*rows, (f"{len(rest)} more", _ms(ns, len(group.steps)),
                    _share(ns, max(group.busy_ns, 1)), *("" for _ in rows[0][3:]))]


def _memory(run: Run, step: Step) -> str:
    held = [m for m in run.memory if (m.subject, m.place) == (step.subject, step.place)]
    if not held:
        return ""                               # torch's on the CPU, which nobody planned
    peak = {m.role: m.bytes or 0 for m in held if m.moment == "peak"}
    total = sum(peak.values())
    rows = [(role, f"{peak[role]:,}", _share(peak[role], max(total, 1)))
            for role in (*ROLES, SLACK) if peak.get(role)]
    rows.append(("the device's memory in all", f"{total:,}", "100.0 %"))
    rows += [("this process at its most", f"{m.bytes:,}", "") for m in held
             if m.moment == "process peak"]
    return table(("memory at the peak of a step", "bytes", "share"), rows)


def _peaks(run: Run, place: str) -> str:
    """The device's best rates, where they were measured."""
    found = {r.name: r.value for r in run.results
             if r.study == STUDY and r.place == place and r.value is not None}
    if "arithmetic peak" not in found:
        return ""
    return (f"at best the device does {found['arithmetic peak'] / 1e9:.1f} GFLOP/s, copies "
            f"{found['memory peak'] / 1e9:.1f} GB/s, and takes {found['launch time'] / 1e3:.1f} us "
            "from one tiny launch to the next (measured just now)")


def _usage(run: Run, step: Step) -> str:
    """How busy the cores were, where sensors were read."""
    found = {r.name: r for r in run.results if r.study == STUDY
             and (r.subject, r.place) == (step.subject, step.place)}
    lines = []
    if (used := found.get(CORES_USED)) is not None and used.value is not None:
        lines.append(f"the process used {used.value:.2f} cores{_next_use(found.get(NEXT_USE))}")
    cores = [(name.removeprefix(f"{UTILISATION} "), r) for name, r in found.items()
             if name.startswith(f"{UTILISATION} ")]
    told = [f"{name} {100 * r.value:.0f} %" for name, r in cores if r.value is not None]
    if told:
        lines.append(f"cores busy, with all other programs: {', '.join(told)}")
    reasons = sorted({r.value_reason for _, r in cores if r.value is None})
    return "\n".join([*lines, *(f"use of cores not known: {why}" for why in reasons)])


def _missing(run: Run) -> str:
    """What the sampler cost, what befell it, and which sensors are not here."""
    lines = []
    found = {r.name: r for r in run.results if r.study == STUDY and r.place is None}
    if (cpu := found.get(OWN_CPU)) is not None and cpu.value is not None:
        lines.append(f"reading the sensors took {100 * cpu.value:.1f} % of one core")
    if (late := found.get(MISSED)) is not None and late.value == 0:     # else it is said below
        lines.append(f"none of {late.x_value:.0f} deadlines were missed")
    lines += [m.why for m in run.missing if m.source == SAMPLER]
    absent = sorted({m.source for m in run.missing} - {SAMPLER})
    if absent:
        lines.append(f"sensors that are not here: {', '.join(absent)} (`handtorch devices` says "
                     "why)")
    measured = any(e.provenance != "estimated" for e in run.energies)
    if run.signals and not measured:
        lines.append("no joules were measured: no sensor here tells power or energy")
    return "\n".join(lines)


def _next_use(r: Result | None) -> str:
    if r is None:
        return ""
    if r.value is None:
        return f"; how well the next step's use is foretold is not known: {r.value_reason}"
    if r.value > 100 * WILD:
        return "; the next step's use cannot be foretold: the steps differ too much"
    return f"; the next step's use is foretold within {r.value:.1f} %"


def _trust(run: Run, group: Group) -> str:
    """How far times can be believed, and what it cost to take them."""
    step = group.steps[0]
    flagged: dict[str, int] = defaultdict(int)
    for launch, _ in group.launches:
        if launch.quality == "bounded":
            flagged[launch.times_reason] += 1
    lines = [f"{n} of {len(group.launches)} commands placed between their neighbours: {why}"
             for why, n in flagged.items()]
    clock = next((c for c in run.clocks if c.name == DEVICE_CLOCK), None)
    if clock is not None and clock.error_ns is not None:
        lines.append(f"device times are on the host's clock within {clock.error_ns / 1e3:.1f} us")
    lines += [_overhead(r) for r in run.results
              if r.study == STUDY and r.name in (WALL, CPU)
              and (r.subject, r.place) == (step.subject, step.place)]
    return "\n".join(lines)


def _overhead(r: Result) -> str:
    of = "of a step" if r.name == WALL else "of its processor time"
    if r.value is None:
        return f"overhead of this profile, {of}: {r.value_reason}"
    bounds = "" if r.low is None else f" ({r.bounds} {r.low:+.2f} to {r.high:+.2f})"
    return (f"overhead of this profile: {r.value:+.2f} % {of}{bounds}, {r.repeats} pairs of "
            "steps in random order")


def _ms(ns: int, steps: int) -> str:
    return f"{ns / 1e6 / max(steps, 1):.3f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _count(launches: int, group: Group) -> str:
    each = launches / len(group.steps)
    return f"{each:.0f}" if each == int(each) else f"{each:.1f}"


def _rate(work: int, ns: int) -> str:
    return f"{work / ns:.1f}" if work and ns else ""
