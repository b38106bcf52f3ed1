"""Joules without a sensor: what a sheet says the parts of a device draw, for the time and the bytes
of each operation. Estimated, and called so in every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from handtorch.place.draw import Draw, draw_of
from handtorch.place.sheet import Sheet
from handtorch.profile.energy.spans import NO_LAYER, operation
from handtorch.profile.group import Group, groups
from handtorch.record import Energy, Launch, Run
from handtorch.record.sensed import Level

METER, QUANTITY = "sheet", "device_power_w"


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
    place = next(p for p in run.places if p.name == group.steps[0].place)
    kind = next((d.kind for d in run.devices if d.id == place.device), "cpu")
    return draw_of(sheet, kind, 0.0 if kind == "gpu" else _cores_busy(run, group))


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
