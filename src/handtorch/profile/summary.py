"""The few figures of a profile: time of a step, utilisation, throughput, gaps, overhead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from handtorch.graph.node import Port
from handtorch.profile.audit import LEAST, Audited, Overhead
from handtorch.profile.collect import HOST, Subject
from handtorch.profile.gaps import CAUSES, busy_ns, clipped
from handtorch.record import Gap, Launch, Result, Step
from handtorch.record.row import Row
from handtorch.record.rows import Better

STUDY = "profile"
WALL, CPU = "overhead", "overhead, processor time"
NOT_AUDITED = "not measured: run.audit(...) runs steps with and without recording"


def summary_rows(of: Subject, timed: Iterable[Row], inputs: Sequence[Port],
                 overhead: Audited | None) -> Iterator[Result]:
    """Of all recorded steps: the median and the middle half of each."""
    rows = list(timed)
    steps = [r for r in rows if isinstance(r, Step)]
    work: dict[int, list[tuple[int, int]]] = {s.id: [] for s in steps}
    idle: dict[str, dict[int, int]] = {cause: dict.fromkeys(work, 0) for cause in CAUSES}
    for row in rows:
        if isinstance(row, Gap):
            idle[row.cause][row.step] += row.end_ns - row.start_ns
        elif isinstance(row, Launch) and row.lane != HOST:
            assert row.start_ns is not None and row.end_ns is not None
            work[row.step].append((row.start_ns, row.end_ns))
    wall = [max(s.end_ns - s.start_ns, 1) for s in steps]
    busy = [busy_ns(clipped(work[s.id], (s.start_ns, s.end_ns))) for s in steps]
    yield _row(of, "step time", "ms", [w / 1e6 for w in wall], "lower")
    yield _row(of, "utilisation", "share", [b / w for b, w in zip(busy, wall, strict=True)],
               "higher")
    first = {p.value.shape[:1] for p in inputs}
    if len(first) == 1 and () not in first:
        ((batch,),) = first
        yield _row(of, "throughput", "samples/s", [1e9 * batch / w for w in wall], "higher")
    else:
        yield _row(of, "throughput", "samples/s", (), "higher",
                   "the inputs have no first axis of one length")
    for cause, by_step in idle.items():
        yield _row(of, f"gap {cause}", "ms", [n / 1e6 for n in by_step.values()], "lower")
    yield _overhead(of, WALL, None if overhead is None else overhead.wall)
    yield _overhead(of, CPU, None if overhead is None else overhead.cpu)


def _row(of: Subject, name: str, unit: str, values: Sequence[float], better: Better,
         reason: str = "") -> Result:
    ordered = sorted(values)
    n = len(ordered)
    return Result(study=STUDY, name=name, subject=of.name, place=of.place,
                  value=median(ordered) if n else None, value_reason=reason, unit=unit,
                  better=better, repeats=n,
                  spread=ordered[3 * n // 4] - ordered[n // 4] if n > 1 else None,
                  provenance="measured")


def _overhead(of: Subject, name: str, found: Overhead | None) -> Result:
    if found is None:
        return _row(of, name, "%", (), "lower", NOT_AUDITED)
    if found.low is None:
        return _row(of, name, "%", (), "lower", f"{found.pairs} pairs of steps are too few to tell "
                    f"it from chance: it takes {LEAST}")
    return Result(study=STUDY, name=name, subject=of.name, place=of.place,
                  value=found.percent, unit="%", better="lower", repeats=found.pairs,
                  spread=found.quartiles, low=found.low, high=found.high, bounds="95 % interval",
                  provenance="measured")
