"""States (memory, frequency, temperature) while operations ran: a mean over time, and the most.

A gauge holds until its next reading. It is not energy and is never shared out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.join import integral
from handtorch.profile.energy.model import Series, Spans


@dataclass(frozen=True)
class OpGauge:
    """Over all instances of one operation; None before the first reading and where none is."""

    name: str
    mean: float | None
    most: float | None


def gauge(spans: Spans, series: Series) -> tuple[OpGauge, ...]:
    """In the unit of the signal; the time of a missing reading is left out."""
    good = np.isfinite(series.value)
    at = np.append(series.time_ns, max(int(spans.end_ns.max(initial=0)),
                                       int(series.time_ns.max(initial=0))) + 1)
    value = np.append(np.where(good, series.value, 0.0), 0.0)
    there = np.append(good, False).astype(np.float64)
    ops = len(spans.names)
    total = np.bincount(spans.op, integral(at, value, spans.start_ns, spans.end_ns), ops)
    seconds = np.bincount(spans.op, integral(at, there, spans.start_ns, spans.end_ns), ops)
    first = np.maximum(np.searchsorted(at, spans.start_ns, side="right") - 1, 0)
    behind = np.maximum(np.searchsorted(at, spans.end_ns, side="left"), first + 1)
    held = np.append(np.where(good, series.value, -np.inf), -np.inf)
    most = np.full(ops, -np.inf)
    ran = spans.end_ns > spans.start_ns
    ran &= spans.end_ns > at[0]
    if ran.any():
        pairs = np.column_stack([first[ran], np.minimum(behind[ran], len(held) - 1)]).ravel()
        np.maximum.at(most, spans.op[ran], np.maximum.reduceat(held, pairs)[::2])
    return tuple(OpGauge(name, float(total[i] / seconds[i]) if seconds[i] > 0 else None,
                         float(most[i]) if np.isfinite(most[i]) else None)
                 for i, name in enumerate(spans.names))
