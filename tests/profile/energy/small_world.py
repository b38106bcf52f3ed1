"""A small machine whose power is known at every instant, and sensors that look at it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from handtorch.meters.signal import Kind, Signal
from handtorch.profile.energy.model import Floats, Ints, Series, Spans

IDLE_W = 1.5
MS = 1_000_000


@dataclass(frozen=True)
class World:
    """Power is `watts[i]` from `at[i]` on; `truth` are the joules of each operation."""

    spans: Spans
    at: Ints
    watts: Floats
    truth: Floats
    steps: Floats

    def joules(self, time: Ints | Floats) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(self.watts[:-1] * np.diff(self.at) * 1e-9)])
        return np.interp(time, self.at, total)


def world(seed: int = 0, steps: int = 40, ops: int = 6, varies: float = 0.03, gaps: bool = True
          ) -> World:
    """One lane; operations of 0.5 to 9 ms."""
    rng = np.random.default_rng(seed)
    usual = rng.uniform(0.5, 9, ops) * MS
    power = rng.uniform(2, 12, ops)
    length = (usual * rng.uniform(0.97, 1.03, (steps, ops))).astype(np.int64)
    gap = (rng.exponential(0.4, (steps, ops)) * MS * gaps).astype(np.int64)
    took = power * rng.normal(1, varies, (steps, ops))
    between = (rng.uniform(3, 20, steps) * MS * gaps).astype(np.int64)
    whole = (gap + length).sum(axis=1)
    start = 500 * MS + np.concatenate([[0], np.cumsum(whole[:-1])]) + np.cumsum(between)
    end = start[:, None] + np.cumsum(gap + length, axis=1)
    begin = end - length
    spans = Spans(tuple(f"op{i}" for i in range(ops)), np.tile(np.arange(ops), steps),
                  np.zeros(steps * ops, np.int64), np.repeat(np.arange(steps), ops),
                  begin.ravel(), end.ravel(), start, start + whole)
    return powered(spans, took.ravel() - IDLE_W)


def powered(spans: Spans, above: Floats) -> World:
    """Each span takes `above` more than idle; idle is shared by those that run at once."""
    edges = np.concatenate([spans.start_ns, spans.end_ns])
    at, inverse = np.unique(edges, return_inverse=True)
    watts = np.cumsum(np.bincount(inverse, np.concatenate([above, -above]))) + IDLE_W
    ones = np.ones(len(above))
    running = np.cumsum(np.bincount(inverse, np.concatenate([ones, -ones]))).round()
    part = np.where(running > 0, IDLE_W / np.maximum(running, 1), 0.0)
    upto = np.concatenate([[0.0], np.cumsum(part[:-1] * np.diff(at) * 1e-9)])
    share = np.interp(spans.end_ns, at, upto) - np.interp(spans.start_ns, at, upto)
    truth = np.bincount(spans.op, (spans.end_ns - spans.start_ns) * 1e-9 * above + share,
                        len(spans.names))
    last = int(spans.step_end_ns.max())
    made = World(spans, np.concatenate([[0], at, [last + 500 * MS]]),
                 np.concatenate([[IDLE_W], watts, [IDLE_W]]), truth, np.zeros(0))
    return replace(made, steps=made.joules(spans.step_end_ns) - made.joules(spans.step_start_ns))


def signal(kind: Kind, span_ns: int = 0, wraps_at: float | None = None, step: float = 0.0
           ) -> Signal:
    quantity = "rail_j" if kind == "counter" else "rail_power_w"
    return Signal("sim", quantity, kind, "machine", 10 * MS, span_ns, step=step,
                  wraps_at=wraps_at)


def read(made: World, kind: Kind, span_ns: int = 0, noise_w: float = 0.0, every_ms: float = 5.0,
         late_ns: int = 0, half_ns: int = 0, seed: int = 1) -> Series:
    """The readings of a sensor, each stamped `late_ns` after it was taken."""
    rng = np.random.default_rng(seed)
    end = int(made.at[-1]) - 100 * MS
    count = int((end - 250 * MS) / (every_ms * MS))
    time = (250 + every_ms * (np.arange(count) + rng.uniform(-0.3, 0.3, count))) * MS
    time = np.sort(time).astype(np.int64)
    if kind == "counter":
        value = made.joules(time)
    elif kind == "window":
        value = (made.joules(time) - made.joules(time - span_ns)) / (span_ns * 1e-9)
    elif kind == "lowpass":
        value = _filtered(made, time, span_ns)
    else:
        value = made.watts[np.searchsorted(made.at, time, side="right") - 1]
    value = value + rng.normal(0, noise_w, count)
    return Series(signal(kind, span_ns), time + late_ns, np.full(count, half_ns), value)


def _filtered(made: World, time: Ints, span_ns: int) -> Floats:
    level = np.empty(len(made.at))
    level[0] = made.watts[0]
    fade = np.exp(-np.diff(made.at) / span_ns)
    for i, kept in enumerate(fade):
        level[i + 1] = made.watts[i] + (level[i] - made.watts[i]) * kept
    i = np.searchsorted(made.at, time, side="right") - 1
    return np.asarray(made.watts[i] + (level[i] - made.watts[i])
                      * np.exp(-(time - made.at[i]) / span_ns))
