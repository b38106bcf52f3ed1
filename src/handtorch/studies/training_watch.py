"""Steps one after the other, timed, with the machine's sensors read beside them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import mean

from handtorch.profile.collect import HOST_CLOCK
from handtorch.profile.energy.rows import NEXT_POWER
from handtorch.profile.predict import predictability
from handtorch.profile.rows import as_run
from handtorch.profile.sensing import Sensing
from handtorch.profile.usage import CORES_USED, IDLE_RATIO, NEXT_USE, UTILISATION, counter
from handtorch.record import Clock, Energy, Launch, Missing, Result, Run, RunInfo, Step
from handtorch.record.row import Row
from handtorch.studies.training_cells import Power, Use

PLACE, SUBJECT = "here", "step"
_MEAN, _BUSY = "mean of cores", "_busy_s"
SHOWN = 3                   # steps whose use is drawn over time, as in the paper's Fig. 2


@dataclass(frozen=True)
class Length:
    """How long steps are measured: at least `steps` and `seconds`, but no longer than `most_s`."""

    steps: int = 3
    seconds: float = 2.0
    most_s: float = 60.0


@dataclass(frozen=True)
class Watched:
    step_s: tuple[float, ...]
    use: Use
    power: Power


def watched(step: Callable[[int], object], length: Length) -> Watched:
    """`step(i)` trains once and waits; what it took, and what the machine did meanwhile."""
    sensing = Sensing()
    sensing.start()
    spans: list[tuple[int, int]] = []
    begin = time.monotonic_ns()
    try:
        while True:
            start = time.monotonic_ns()
            step(len(spans))
            spans.append((start, time.monotonic_ns()))
            seconds = (spans[-1][1] - begin) / 1e9
            enough = len(spans) >= length.steps and seconds >= length.seconds
            if enough or seconds >= length.most_s:
                break
        time.sleep(0.15)            # counters are read ten times a second: once more behind the end
    finally:
        sensing.stop()
    run = _as_run(spans, sensing)
    found = [*run.missing, *sensing.worked_out(run)]
    times = tuple((end - start) / 1e9 for start, end in spans)
    use = replace(use_of(found, times), over=over_steps(run, spans[0][0], spans[:SHOWN][-1][1]))
    return Watched(times, use, power_of(run, found))


def _as_run(spans: Iterable[tuple[int, int]], sensing: Sensing) -> Run:
    """Each step is one piece of work: what lies inside it is not looked at here."""
    rows: list[Row] = [Clock(name=HOST_CLOCK, offset_ns=0, error_ns=0, provenance="measured")]
    for i, (start, end) in enumerate(spans):
        rows.append(Step(id=i, place=PLACE, subject=SUBJECT, number=i, kind="training",
                         clock=HOST_CLOCK, start_ns=start, end_ns=end, provenance="measured"))
        rows.append(Launch(step=i, number=0, kernel=SUBJECT, op=SUBJECT, phase="training",
                           clock=HOST_CLOCK, queued_ns=start, submit_ns=start, start_ns=start,
                           end_ns=end, flops=None, moved_bytes=None, work_reason="a whole step",
                           provenance="measured"))
    info = RunInfo(id=uuid.uuid4().hex, command="study training", duration_ns=0, status="complete",
                   started_utc=datetime.now(UTC).isoformat(timespec="milliseconds"))
    return as_run(info, [*rows, *sensing.rows(SUBJECT)])


def use_of(found: Iterable[Row], times: tuple[float, ...]) -> Use:
    """From the rows of `usage_rows`; what they do not know is None, with the first reason."""
    rows = {r.name: r for r in found if isinstance(r, Result)}

    def by_core(name: str) -> dict[str, float]:
        return {key.removeprefix(f"{name} "): row.value for key, row in rows.items()
                if key.startswith(f"{name} ") and not key.endswith(_MEAN) and row.value is not None}

    def value(name: str) -> float | None:
        return rows[name].value if name in rows else None

    foretold = predictability(times)
    error = None if foretold is None else foretold.errors.get(foretold.estimator)
    used = value(NEXT_USE)
    reasons = [r.value_reason for r in rows.values() if r.value is None and r.name != NEXT_USE]
    return Use(by_core(UTILISATION), by_core(IDLE_RATIO), None, value(CORES_USED), error,
               None if used is None else used / 100, reasons[0] if reasons else "")


def over_steps(run: Run, start_ns: int, end_ns: int) -> dict[str, list[tuple[float, float]]]:
    """By core how busy it was between two readings of its counter, at the middle of them."""
    found: dict[str, list[tuple[float, float]]] = {}
    for signal in run.signals:
        if signal.quantity.startswith("cpu") and signal.quantity.endswith(_BUSY):
            read = counter(run, signal.meter, signal.quantity)
            line = [(((a + b) / 2 - start_ns) / 1e9, float(min(1.0, 1e9 * (v - u) / (b - a))))
                    for (a, u), (b, v) in pairwise(zip(read.times_ns.tolist(), read.seconds,
                                                       strict=True))
                    if start_ns <= a and b <= end_ns and b > a]
            if line:
                found[signal.quantity.removesuffix(_BUSY)] = line
    return found


def power_of(run: Run, found: Iterable[Row]) -> Power:
    """Joules of a step on every rail that was read, the mean over the steps with readings."""
    found = list(found)
    rails = [e for e in found if isinstance(e, Energy) and e.level == "rail"]
    joules = {f"{e.meter} {e.quantity}": e.total_j / max(e.instances, 1)
              for e in rails if e.total_j is not None}
    parts = {f"{s.meter} {s.quantity}": s.part for s in run.signals
             if f"{s.meter} {s.quantity}" in joules}
    errors = [r.value / 100 for r in found if isinstance(r, Result) and r.value is not None
              and r.name.startswith(NEXT_POWER)]
    words = {e.provenance for e in rails}
    why = "" if joules else _why_no_power(rails, [m for m in found if isinstance(m, Missing)])
    return Power(joules, parts, mean(errors) if errors else None,
                 words.pop() if len(words) == 1 else "measured", why)


def _why_no_power(rails: list[Energy], missing: list[Missing]) -> str:
    if rails:
        return rails[0].total_reason
    meters = ("rapl", "battery", "hwmon", "ina3221", "nvml", "tegrastats")
    told = [f"{m.source}: {m.why}" for m in missing if m.source in meters]
    return "no sensor of power here" + (f" ({'; '.join(told[:2])})" if told else "")
