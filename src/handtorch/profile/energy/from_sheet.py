"""Joules without a sensor: what a sheet says the parts of a device draw, for the time and the bytes
of each operation. Estimated, and called so in every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from handtorch.place.sheet import Sheet
from handtorch.profile.energy.spans import NO_LAYER, operation
from handtorch.profile.group import Group, groups
from handtorch.record import Energy, Launch, Run
from handtorch.record.sensed import Level

METER, QUANTITY = "sheet", "device_power_w"


@dataclass(frozen=True)
class Draw:
    """What the device draws: watts doing nothing, watts more while it works, joules a byte."""

    idle_w: float
    busy_w: float
    byte_j: float
    how: str

    def total_j(self, seconds: float, moved_bytes: int) -> float:
        return self.idle_w * seconds + self.dynamic_j(seconds, moved_bytes)

    def dynamic_j(self, seconds: float, moved_bytes: int) -> float:
        return self.busy_w * seconds + self.byte_j * moved_bytes


def estimated_rows(run: Run, sheet: Sheet) -> Iterator[Energy]:
    """For every subject and place: the whole, idle, and by step, phase, layer and operation."""
    for group in groups(run):
        drawn = draw(run, group, sheet)
        if isinstance(drawn, str):
            yield _row(group, "rail", "", 0, 0.0, None, None, drawn, f"sheet of {sheet.name}")
        else:
            yield from _rows(group, drawn)


def draw(run: Run, group: Group, sheet: Sheet) -> Draw | str:
    """Of the place on which the group ran; or why it cannot be said."""
    if sheet.idle_w.value is None:
        return sheet.idle_w.source
    place = next(p for p in run.places if p.name == group.steps[0].place)
    kind = next((d.kind for d in run.devices if d.id == place.device), "cpu")
    parts = [f"idle {sheet.idle_w.value:g} W"]
    if kind == "gpu":
        busy_w, why = sheet.gpu_w.value, sheet.gpu_w.source
        parts.append(f"GPU {busy_w} W more")
    else:
        cores = _cores_busy(run, group)
        busy_w = None if isinstance(cores, str) else sheet.cores_w(cores)
        why = cores if isinstance(cores, str) else "the sheet has no [[cores]]"
        parts.append(f"{cores if isinstance(cores, str) else format(cores, '.2f')} cores busy: "
                     f"{busy_w or 0:.2f} W more")
    if busy_w is None:
        return why
    if sheet.memory_j.value is None:
        parts.append("memory not counted")
    else:
        parts.append(f"memory {sheet.memory_j.value * 1e12:g} pJ a byte")
    return Draw(sheet.idle_w.value, busy_w, sheet.memory_j.value or 0.0,
                f"sheet of {sheet.name}: {', '.join(parts)}")


def _cores_busy(run: Run, group: Group) -> float | str:
    """Processor time of this process over the time it worked, between the ends of steps."""
    first, last = group.steps[0].start_ns, group.steps[-1].end_ns
    seen = [(s.time_ns, s.value) for s in run.samples
            if s.quantity == "process_cpu_s" and first <= s.time_ns <= last and s.value is not None]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return "processor time was not recorded for two steps"
    wall_s = (seen[-1][0] - seen[0][0]) / 1e9
    busy = group.busy_ns / max(group.wall_ns, 1)
    most = float("inf") if run.machine is None else float(run.machine.usable_cores)
    return min(most, (seen[-1][1] - seen[0][1]) / wall_s / max(busy, 1e-9))


def _rows(group: Group, drawn: Draw) -> Iterator[Energy]:
    idle_s = (group.wall_ns - group.busy_ns) / 1e9
    moved = sum(la.moved_bytes or 0 for la, _ in group.launches)
    busy_s = group.busy_ns / 1e9
    yield _row(group, "rail", "", len(group.steps), group.wall_ns / 1e9,
               drawn.total_j(busy_s, moved) + drawn.idle_w * idle_s,
               drawn.dynamic_j(busy_s, moved), "", drawn.how)
    yield _row(group, "idle", "", len(group.steps), idle_s, drawn.idle_w * idle_s, 0.0, "",
               drawn.how)
    keys: tuple[tuple[Level, Callable[[Launch], str]], ...] = (
        ("phase", lambda la: la.phase), ("layer", lambda la: la.layer or NO_LAYER),
        ("op", operation))
    for level, key in keys:
        for name, line in group.lines(key).items():
            yield _row(group, level, name, line.launches, line.ns / 1e9,
                       drawn.total_j(line.ns / 1e9, line.moved_bytes),
                       drawn.dynamic_j(line.ns / 1e9, line.moved_bytes), "", drawn.how)
    yield from _steps(group, drawn)


def _steps(group: Group, drawn: Draw) -> Iterator[Energy]:
    found = group.lines(lambda la: str(la.step))
    for step in group.steps:
        line, wall_s = found[str(step.id)], (step.end_ns - step.start_ns) / 1e9
        dynamic = drawn.dynamic_j(line.ns / 1e9, line.moved_bytes)
        yield _row(group, "step", str(step.number), 1, wall_s, drawn.idle_w * wall_s + dynamic,
                   dynamic, "", drawn.how)


def _row(group: Group, level: Level, name: str, instances: int, seconds: float,
         total_j: float | None, dynamic_j: float | None, reason: str, how: str) -> Energy:
    step = group.steps[0]
    return Energy(place=step.place, subject=step.subject, meter=METER, quantity=QUANTITY,
                  level=level, name=name, instances=instances, seconds=seconds, readings=0,
                  total_j=total_j, total_reason=reason, dynamic_j=dynamic_j, dynamic_reason=reason,
                  how=how, provenance="estimated")
