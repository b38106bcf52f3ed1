"""What lies under a timeline: power, and how busy cores and sensors say the machine was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from handtorch.record import Energy, Run, Sample, Signal, Step

Points = list[tuple[int, float | None]]
_CORE = re.compile(r"(cpu\d+|process)_busy_s")
_MOST_LINES = 9


@dataclass(frozen=True)
class Line:
    """Holds each value from its time (CLOCK_MONOTONIC, ns) until the next; None is not known."""

    name: str
    provenance: str
    points: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True)
class Levels:
    """Lines in one unit, to be drawn over each other from zero."""

    name: str
    unit: str
    lines: tuple[Line, ...]


def levels(run: Run, place: str) -> tuple[Levels, ...]:
    """Of this place's steps. Without a sensor for power, what was estimated for each step."""
    offsets = {clock.name: clock.offset_ns for clock in run.clocks}
    read: dict[tuple[str, str], list[Sample]] = {}
    for sample in run.samples:
        if offsets.get(sample.clock) is not None:
            read.setdefault((sample.meter, sample.quantity), []).append(sample)
    signals = {(s.meter, s.quantity): s for s in run.signals}
    found: dict[tuple[str, str], list[Line]] = {("power", "W"): [], ("load", "%"): [],
                                                ("cores in use", "cores"): []}
    for (meter, quantity), samples in read.items():
        key, counts = _kind(quantity)
        if key not in found:
            continue
        points: Points = sorted((s.time_ns + (offsets[s.clock] or 0), s.value) for s in samples)
        if counts:
            points = list(_rates(points, signals.get((meter, quantity))))
        elif key[1] == "%":
            points = [(t, None if v is None else 100 * v) for t, v in points]
        if points:
            name = re.sub(r"_(power_w|energy_j|busy_s|busy_ratio|load_ratio|w|j)$", "", quantity)
            if any(line.name == name for line in found[key]):
                name = f"{name} ({meter})"
            found[key].append(Line(name, samples[0].provenance, tuple(points)))
    if not found["power", "W"]:
        found["power", "W"] += _by_step(run.energies, [s for s in run.steps if s.place == place],
                                        offsets)
    return tuple(Levels(name, unit, tuple(lines[:_MOST_LINES]))
                 for (name, unit), lines in found.items() if lines)


def _kind(quantity: str) -> tuple[tuple[str, str], bool]:
    """Which lines it belongs to, and whether it counts up; a thread's own time is none."""
    if quantity.endswith("_w"):
        return ("power", "W"), False
    if quantity.endswith("energy_j"):
        return ("power", "W"), True
    if quantity.endswith(("busy_ratio", "load_ratio")):
        return ("load", "%"), False
    return ("cores in use" if _CORE.fullmatch(quantity) else "", "cores"), True


def _rates(points: Points, signal: Signal | None) -> Iterator[tuple[int, float | None]]:
    """From one reading of a counter to the next; a counter may begin anew."""
    wraps = None if signal is None else signal.wraps_at
    for (start, before), (end, now) in pairwise(points):
        grown = None if before is None or now is None else now - before
        if grown is not None and grown < 0:
            grown = None if wraps is None else grown + wraps
        if end > start:
            yield start, None if grown is None else 1e9 * grown / (end - start)
    if len(points) > 1:
        yield points[-1][0], None


def _by_step(energies: Iterable[Energy], steps: Sequence[Step],
             offsets: Mapping[str, int | None]) -> Iterator[Line]:
    joules: dict[tuple[str, str, str], dict[tuple[str, str], Energy]] = {}
    for e in energies:
        if e.level == "step" and e.total_j is not None and e.seconds > 0:
            joules.setdefault((e.meter, e.quantity, e.provenance), {})[e.subject, e.name] = e
    for (meter, _, word), of in joules.items():
        points: Points = []
        for step in sorted(steps, key=lambda s: s.start_ns):
            found = of.get((step.subject, str(step.number)))
            offset = offsets.get(step.clock)
            if found is not None and found.total_j is not None and offset is not None:
                points.append((step.start_ns + offset, found.total_j / found.seconds))
                points.append((step.end_ns + offset, None))
        if points:
            yield Line(meter, word, tuple(points))
