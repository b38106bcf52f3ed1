"""A machine whose joules are known: steps that run, the power they take, and meters that read it.

Written from physics alone: power is constant between edges, so its integral is exact, and every
meter is a function of that integral. Nothing here knows how joules are worked out from readings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handtorch.meters.signal import Kind, Signal
from handtorch.profile.energy.model import Floats, Ints, Series, Spans

MS = 1e6                            # in ns
ORIGIN_NS = 5_000_000_000_000       # a machine that has been up for a while
LEAD_NS = 1_000_000_000             # idle before the first step and after the last


@dataclass(frozen=True)
class Work:
    """What runs: `ops` on lane 0 in every step, and half as many of middle length on each other."""

    steps: int = 200
    lanes: int = 1
    ops: int = 40
    lengths_ms: tuple[tuple[float, float, float], ...] = (    # part of the ops, shortest, longest
        (0.6, 0.2, 2.0), (0.325, 2.0, 25.0), (0.075, 25.0, 45.0))
    gap_ms: float = 0.08            # mean, between two operations of lane 0
    pause_ms: float = 2.0           # mean, between two steps
    duration_cv: float = 0.03       # of one operation from step to step
    step_cv: float = 0.01           # of all operations of a step together
    power_cv: float = 0.03          # of one operation from step to step
    shape: float = 0.0              # its first half takes this much more than its mean
    base_w: float = 2.0             # when nothing runs
    dynamic_w: tuple[float, float] = (1.0, 12.0)
    warming: float = 0.04           # by which all power has grown in the end
    warming_s: float = 30.0         # time constant of that


@dataclass(frozen=True)
class Run:
    """What ran and what it took: the truth.

    An operation's joules are those of its own power and, of the base, an equal share among the
    operations that ran just then. ops_j + idle_j = rail_j = steps_j, each summed."""

    spans: Spans
    edge_ns: Ints                   # power is constant between two edges
    watts: Floats                   # one less than edges
    energy_j: Floats                # from the first edge to each
    ops_j: Floats
    dynamic_j: Floats               # of each operation, without its share of the base
    idle_j: float
    steps_j: Floats
    rail_j: float

    def joules_until(self, time_ns: Floats) -> Floats:
        """From the first edge; before it nothing."""
        return np.interp(time_ns, self.edge_ns, self.energy_j)

    def segment_at(self, time_ns: Floats) -> Ints:
        found = np.searchsorted(self.edge_ns, time_ns, side="right") - 1
        return np.clip(found, 0, len(self.watts) - 1)


def _op_lengths_ns(work: Work, count: int, rng: np.random.Generator) -> Floats:
    """Of `count` operations of lane 0, in no order, log-uniform in each class."""
    parts = [round(part * count) for part, _, _ in work.lengths_ms[1:]]
    parts = [count - sum(parts), *parts]
    drawn = [np.exp(rng.uniform(math.log(low), math.log(high), n))
             for n, (_, low, high) in zip(parts, work.lengths_ms, strict=True)]
    return rng.permutation(np.concatenate(drawn)) * MS


def _lane(work: Work, lane: int, speed: Floats, rng: np.random.Generator
          ) -> tuple[Ints, Ints]:
    """Start and end of each operation (a column) in each step (a row), from the step's begin."""
    if lane == 0:
        mean = _op_lengths_ns(work, work.ops, rng)
        gap_ns = work.gap_ms * MS
    else:
        mean = rng.uniform(2, 15, max(1, work.ops // 2)) * MS
        gap_ns = 4 * MS
    shape = (work.steps, len(mean))
    length = mean * speed[:, None] * np.exp(rng.normal(0, work.duration_cv, shape))
    gap = rng.exponential(gap_ns, shape)
    end = np.cumsum(np.rint(length + 1) + np.rint(gap), axis=1).astype(np.int64)
    return end - np.rint(length + 1).astype(np.int64), end


def _spans(work: Work, rng: np.random.Generator) -> Spans:
    speed = np.exp(rng.normal(0, work.step_cv, work.steps))
    lanes = [_lane(work, lane, speed, rng) for lane in range(work.lanes)]
    tail = np.rint(rng.exponential(work.gap_ms * MS, work.steps)).astype(np.int64)
    length = np.max([end[:, -1] for _, end in lanes], axis=0) + tail
    pause = np.rint(rng.exponential(work.pause_ms * MS, work.steps)).astype(np.int64)
    begin = ORIGIN_NS + LEAD_NS + np.concatenate([[0], np.cumsum(length + pause)[:-1]])
    counts = [end.shape[1] for _, end in lanes]
    first = np.cumsum([0, *counts])
    op = [np.tile(np.arange(n), work.steps) + at for n, at in zip(counts, first, strict=False)]
    columns = {
        "op": np.concatenate(op),
        "lane": np.repeat(np.arange(work.lanes), [work.steps * n for n in counts]),
        "step": np.concatenate([np.repeat(np.arange(work.steps), n) for n in counts]),
        "start_ns": np.concatenate([(begin[:, None] + s).ravel() for s, _ in lanes]),
        "end_ns": np.concatenate([(begin[:, None] + e).ravel() for _, e in lanes])}
    order = np.argsort(columns["start_ns"], kind="stable")
    names = tuple(f"lane{lane}.op{i}" for lane, n in enumerate(counts) for i in range(n))
    return Spans(names, step_start_ns=begin, step_end_ns=begin + length,
                 **{name: column[order] for name, column in columns.items()})


def _running(spans: Spans, lane: int, middle: Floats) -> Ints:
    """Which span of this lane ran at each moment; -1 is none."""
    mine = np.flatnonzero(spans.lane == lane)
    last = np.searchsorted(spans.start_ns[mine], middle, side="right") - 1
    which = mine[np.maximum(last, 0)]
    return np.where((last >= 0) & (middle < spans.end_ns[which]), which, -1)


def simulate(work: Work, seed: int) -> Run:
    """The same work and seed give the same run."""
    rng = np.random.default_rng([seed, 1])
    spans = _spans(work, rng)
    op_w = np.exp(rng.uniform(*np.log(work.dynamic_w), len(spans.names)))
    span_w = op_w[spans.op] * np.maximum(0.1, rng.normal(1, work.power_cv, len(spans.op)))
    half_ns = (spans.start_ns + spans.end_ns) // 2
    edge_ns = np.unique(np.concatenate([
        [ORIGIN_NS], spans.start_ns, half_ns, spans.end_ns, spans.step_start_ns,
        spans.step_end_ns, [spans.step_end_ns[-1] + LEAD_NS]]))
    middle = (edge_ns[:-1] + edge_ns[1:]) / 2
    seconds = np.diff(edge_ns) / 1e9
    warm = 1 + work.warming * -np.expm1(-(middle - ORIGIN_NS) / 1e9 / work.warming_s)
    base_w = work.base_w * warm
    running = [_running(spans, lane, middle) for lane in range(work.lanes)]
    at_once = np.sum([which >= 0 for which in running], axis=0)
    watts, count = base_w.copy(), len(spans.names)
    dynamic_j, ops_j = np.zeros(count), np.zeros(count)
    for which in running:
        on = which >= 0
        phase = np.where(middle[on] < half_ns[which[on]], 1 + work.shape, 1 - work.shape)
        own_w = span_w[which[on]] * warm[on] * phase
        watts[on] += own_w
        op, s = spans.op[which[on]], seconds[on]
        dynamic_j += np.bincount(op, own_w * s, count)
        ops_j += np.bincount(op, (own_w + base_w[on] / at_once[on]) * s, count)
    step = np.searchsorted(spans.step_start_ns, middle, side="right") - 1
    inside = (step >= 0) & (middle < spans.step_end_ns[np.maximum(step, 0)])
    joules = watts * seconds
    return Run(spans, edge_ns, watts, np.concatenate([[0.0], np.cumsum(joules)]), ops_j, dynamic_j,
               float(joules[inside & (at_once == 0)].sum()),
               np.bincount(step[inside], joules[inside], work.steps), float(joules[inside].sum()))


@dataclass(frozen=True)
class Meter:
    """A sensor, how it is read, and how its stamps differ from those of the operations."""

    kind: Kind = "instant"
    span_ms: float = 0.0            # acquisition, window, time constant, or between two updates
    held_ms: float = 0.0            # a window's value is renewed only so often; 0: at each read
    least: float = 0.0              # watts or joules between two neighbouring values
    noise_w: float = 0.0            # white, of each new value
    wraps_j: float | None = None    # a counter falls to 0 there
    first_j: float = 0.0            # and stands here in the beginning
    every_ms: float = 10.0
    dither_ms: float = 2.5          # to both sides of a deadline
    late: float = 0.02              # part of the readings
    late_ms: float = 3.0            # mean of those
    missed: float = 0.01            # part of the readings: half are NaN, half are not there
    read_ms: float = 0.04           # a read lasts so long; the value is of any moment in it
    lag_ms: float = 0.0             # what is read is so old
    offset_ms: float = 0.0          # what the stamps are ahead of the operations' clock
    drift_ppm: float = 0.0          # and gain on it
    resync_s: float = math.inf      # until the clocks are compared again


PERFECT = Meter(dither_ms=0, late=0, missed=0, read_ms=0)


@dataclass(frozen=True)
class Readings:
    """What a meter gave, and what only the simulator knows: when each value was really taken, and
    whether it is new or the one before, read again."""

    series: Series
    taken_ns: Floats
    fresh: NDArray[np.bool_]

    def pooled(self, spans: Spans) -> Ints:
        """How many new values were read while an instance of each operation ran."""
        counts = np.zeros(len(spans.names), np.int64)
        for lane in np.unique(spans.lane):
            which = _running(spans, int(lane), self.taken_ns[self.fresh])
            counts += np.bincount(spans.op[which[which >= 0]], minlength=len(counts))
        return counts


def _reads(run: Run, meter: Meter, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Begin and end of each read, true time: one reader, that never begins before it has ended."""
    deadline = np.arange(run.edge_ns[0] + LEAD_NS / 2, run.edge_ns[-1], meter.every_ms * MS)
    deadline += rng.uniform(-1, 1, len(deadline)) * meter.dither_ms * MS
    deadline += (rng.random(len(deadline)) < meter.late) * rng.exponential(
        max(meter.late_ms, 1e-9) * MS, len(deadline))
    lasts = meter.read_ms * MS * rng.uniform(0.8, 1.2, len(deadline))
    before = np.concatenate([[0.0], np.cumsum(lasts)[:-1]])
    begin = before + np.maximum.accumulate(deadline - before)
    there = (rng.random(len(begin)) >= meter.missed / 2) & (begin + lasts < run.edge_ns[-1])
    return begin[there], (begin + lasts)[there]


def lowpass_w(run: Run, tau_ns: float, time_ns: Floats) -> Floats:
    """tau dy/dt = P - y, exact; y has settled when the run begins."""
    keep = np.exp(-np.diff(run.edge_ns) / tau_ns)
    at_edge = np.empty(len(run.watts))
    y = float(run.watts[0])
    for i, (k, w) in enumerate(zip(keep.tolist(), run.watts.tolist(), strict=True)):
        at_edge[i] = y
        y = w + (y - w) * k
    seg = run.segment_at(time_ns)
    since = np.exp(-(time_ns - run.edge_ns[seg]) / tau_ns)
    return run.watts[seg] + (at_edge[seg] - run.watts[seg]) * since


def _values(run: Run, meter: Meter, taken: Floats, rng: np.random.Generator
            ) -> tuple[Floats, NDArray[np.bool_]]:
    """What the sensor shows at these true times, and which of it is new."""
    span_ns, renew_ns = meter.span_ms * MS, meter.held_ms * MS
    if meter.kind == "counter":
        renew_ns = span_ns
    made = taken
    if renew_ns:
        phase = run.edge_ns[0] + rng.uniform(0, renew_ns)
        made = phase + np.floor((taken - phase) / renew_ns) * renew_ns
    fresh = np.diff(made, prepend=-np.inf) > 0
    seen = made - meter.lag_ms * MS
    if meter.kind == "counter":
        total = meter.first_j + run.joules_until(seen)
        total = np.floor(total / meter.least) * meter.least if meter.least else total
        return (total if meter.wraps_j is None else np.mod(total, meter.wraps_j)), fresh
    if meter.kind == "lowpass":
        watts = lowpass_w(run, span_ns, seen)
    elif span_ns:
        watts = (run.joules_until(seen) - run.joules_until(seen - span_ns)) / (span_ns / 1e9)
    else:
        watts = run.watts[run.segment_at(seen)]
    noise = rng.normal(0, 1, len(taken)) * meter.noise_w
    watts = watts + noise[np.maximum.accumulate(np.where(fresh, np.arange(len(taken)), 0))]
    return (np.rint(watts / meter.least) * meter.least if meter.least else watts), fresh


def signal_of(meter: Meter) -> Signal:
    counter = meter.kind == "counter"
    return Signal("simulated", "rail_energy_j" if counter else "rail_power_w", meter.kind,
                  "machine", round(meter.every_ms * MS), round(meter.span_ms * MS),
                  step=meter.least, wraps_at=meter.wraps_j)


def measure(run: Run, meter: Meter, seed: int) -> Readings:
    """The same run, meter and seed give the same readings."""
    rng = np.random.default_rng([seed, 2])
    begin, end = _reads(run, meter, rng)
    taken = begin + rng.random(len(begin)) * (end - begin)
    value, fresh = _values(run, meter, taken, rng)
    unread = rng.random(len(value)) < meter.missed / 2
    since_sync = np.mod((begin - run.edge_ns[0]) / 1e9, meter.resync_s)
    ahead = meter.offset_ms * MS + meter.drift_ppm * 1e3 * since_sync
    stamp = np.rint((begin + end) / 2 + ahead).astype(np.int64)
    half = np.ceil((end - begin) / 2).astype(np.int64)
    assert np.all(np.diff(stamp) >= 0)
    series = Series(signal_of(meter), stamp, half, np.where(unread, np.nan, value))
    return Readings(series, taken, fresh & ~unread)
