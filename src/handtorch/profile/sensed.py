"""What a sampler gave, as rows of a run: signals, readings, what is missing, and its own cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from handtorch.profile.collect import HOST_CLOCK
from handtorch.profile.energy.model import Series
from handtorch.profile.sampled import Readings, Troubles
from handtorch.profile.summary import STUDY
from handtorch.record import Missing, Result, Sample, Signal
from handtorch.record.row import Provenance, Row

SAMPLER = "sampler"
OWN_CPU, MISSED = "sampler's processor time", "deadlines missed by the sampler"


def sensed_rows(readings: Readings, subject: str, provenance: Provenance = "measured"
                ) -> Iterator[Row]:
    """Readings of a tree of files that stands for a machine are `simulated`."""
    reasons = {(f.signal.meter, f.signal.quantity): "; ".join(f.reasons)
               for f in readings.troubles.failed}
    for series in readings.series:
        yield _signal(series)
    for series in readings.series:
        key = series.signal.meter, series.signal.quantity
        yield from _samples(series, reasons.get(key, "") or "it was no number", provenance)
    yield from _missing(readings.troubles)
    yield from _cost(readings, subject)


def _signal(series: Series) -> Signal:
    of = series.signal
    return Signal(meter=of.meter, quantity=of.quantity, kind=of.kind, part=of.part,
                  parent=of.parent, every_ns=of.every_ns, span_ns=of.span_ns, step=of.step,
                  wraps_at=of.wraps_at, basis=of.basis, source=of.where)


def _samples(series: Series, why: str, provenance: Provenance) -> Iterator[Sample]:
    for at, half, value in zip(series.time_ns.tolist(), series.half_ns.tolist(),
                               series.value.tolist(), strict=True):
        known = math.isfinite(value)
        yield Sample(time_ns=at, clock=HOST_CLOCK, meter=series.signal.meter,
                     quantity=series.signal.quantity, value=value if known else None,
                     value_reason="" if known else why, provenance=provenance, error_ns=half)


def _missing(troubles: Troubles) -> Iterator[Missing]:
    for absent in troubles.absent:
        yield Missing(source=absent.meter, why=absent.why, fix=absent.fix)
    for line in troubles.lines():
        yield Missing(source=SAMPLER, why=line, time_ns=troubles.last_ns or None)


def _cost(readings: Readings, subject: str) -> Iterator[Result]:
    """Processor time is a share of one core; deadlines are those of all sensors together."""
    troubles = readings.troubles

    def row(name: str, value: float | None, unit: str, why: str, of: int = 1) -> Result:
        return Result(study=STUDY, name=name, subject=subject, value=value, value_reason=why,
                      unit=unit, better="lower", repeats=1 if value is not None else 0,
                      x_name="deadlines" if of > 1 else "", x_value=float(of) if of > 1 else None,
                      provenance="measured")

    if readings.how == "none":
        return
    share = troubles.cpu_share
    yield row(OWN_CPU, share, "share of a core",
              "" if share is not None else "it did not run for long enough")
    due = sum(d.due for d in troubles.deadlines)
    if due > 1:
        yield row(MISSED, float(sum(d.missed for d in troubles.deadlines)), "deadlines", "", due)
