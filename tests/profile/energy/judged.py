"""Estimates held against the truth: how far off, how sure, and what was promised of them.

What is promised: an operation of which at least `MANY` readings were taken is right to `CLOSE`; one
of which fewer were taken is refused, or says in its interval that it may be further off; and 95 %
intervals contain the truth as often as that."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from handtorch.profile.energy.model import Attribution, Floats, Ints, Series
from tests.profile.energy.simulated import Meter, Readings, Run, Work, measure, simulate

MANY, CLOSE = 400, 0.05
LEAST_COVERED, MOST_COVERED = 0.92, 0.98
ENOUGH_STEPS, RAIL_CLOSE = 200, 0.02
SURE_SE = 0.01                      # limits are moved only where chance moves the share more

Bools = NDArray[np.bool_]
# Honest ones use run.spans and the series; those that prove the judge may look at the truth.
Estimator = Callable[[Run, Series], Attribution]


@dataclass(frozen=True)
class Scenario:
    """A kind of machine; each seed gives it other operations, other noise and another clock."""

    name: str
    meter: Meter
    work: Work = field(default_factory=Work)
    seeds: int = 16
    first: int = 0                  # seed; those of the table were seen while estimators were made
    skew_ms: float = 0.1            # the clocks differ by any value up to this
    hard: bool = False              # 400 readings need not do: it may refuse, or not be sure
    asked: bool = True              # else it is shown, and nothing is promised

    def one(self, seed: int) -> tuple[Run, Meter]:
        rng = np.random.default_rng([seed, 3])
        meter = replace(self.meter, offset_ms=rng.uniform(-1, 1) * self.skew_ms)
        if meter.wraps_j is not None:
            meter = replace(meter, first_j=rng.uniform(0, meter.wraps_j))
        return simulate(self.work, seed), meter


@dataclass(frozen=True)
class Judged:
    """The operations of all seeds of a scenario, as columns; NaN where one was refused."""

    scenario: Scenario
    seed: Ints
    samples: Ints                   # new values read while it ran
    error: Floats                   # of its joules, relative, signed
    half: Floats                    # of its interval, relative to the truth
    bare: Bools                     # joules without an interval
    covered: Bools
    rail_error: Floats              # one for each seed
    leak: Floats                    # what is missing in rail = ops + idle + unattributed
    run_s: float                    # mean, of the estimator

    @property
    def given(self) -> Bools:
        return ~np.isnan(self.error)

    @property
    def many(self) -> Bools:
        return self.samples >= MANY

    @property
    def claims(self) -> Bools:
        """To be right to `CLOSE`, where nothing was promised."""
        return self.given & (~self.many | self.scenario.hard) & (self.half <= CLOSE)


def judge_run(run: Run, samples: Ints, got: Attribution) -> dict[str, Floats | Ints | Bools]:
    """The columns of one run."""
    assert tuple(op.name for op in got.ops) == run.spans.names
    nan = math.nan
    total, low, high = (np.array([nan if v is None else v for v in column]) for column in zip(
        *((op.total_j, op.low_j, op.high_j) for op in got.ops), strict=True))
    assert all(op.reason for op in got.ops if op.total_j is None), "refused without a reason"
    rail, idle, rest = (nan if v is None else v for v in (
        got.rail_j, got.idle_j, got.unattributed_j))
    return {"samples": samples, "error": total / run.ops_j - 1,
            "half": (high - low) / 2 / run.ops_j,
            "bare": ~np.isnan(total) & ~(low <= high),
            "covered": (low <= run.ops_j) & (run.ops_j <= high),
            "rail_error": np.array([rail / run.rail_j - 1]),
            "leak": np.array([(rail - np.nansum(total) - idle - rest) / run.rail_j])}


@functools.lru_cache(maxsize=128)
def _measured(meter: Meter, work: Work, skew_ms: float, seed: int) -> tuple[Run, Readings]:
    """Many estimators are judged by the same runs."""
    run, seen_by = Scenario("", meter, work, skew_ms=skew_ms).one(seed)
    return run, measure(run, seen_by, seed)


def judge(scenario: Scenario, estimator: Estimator) -> Judged:
    """All seeds of it; the estimator sees spans and readings."""
    rows, spent = [], 0.0
    for seed in range(scenario.first, scenario.first + scenario.seeds):
        run, readings = _measured(scenario.meter, scenario.work, scenario.skew_ms, seed)
        begin = time.perf_counter()
        got = estimator(run, readings.series)
        spent += time.perf_counter() - begin
        row = judge_run(run, readings.pooled(run.spans), got)
        rows.append(row | {"seed": np.full(len(row["error"]), seed)})
    columns = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return Judged(scenario, run_s=spent / scenario.seeds, **columns)


def coverage(judged: Sequence[Judged]) -> tuple[float, float, int]:
    """The share of given intervals that contain the truth, its standard error, and of how many.

    The error is the larger of the binomial one (of 95 %) and the one seen between the runs: the
    operations of one run share a clock and their neighbours, so they are not independent."""
    hit = [j.covered[j.given & (j.seed == s)] for j in judged for s in np.unique(j.seed)]
    n = np.array([len(h) for h in hit])
    if not n.sum():
        return math.nan, math.inf, 0
    share = sum(int(h.sum()) for h in hit) / n.sum()
    off = np.array([h.sum() for h in hit]) - share * n
    se = max(_chance(int(n.sum())), math.sqrt(float((off ** 2).sum())) / n.sum())
    return float(share), se, int(n.sum())


def _chance(n: int) -> float:
    """Standard error of a share of 95 % of n that are independent. Limits are moved by this one
    alone: an estimator whose runs differ much must not be forgiven for it."""
    return math.sqrt(0.95 * 0.05 / n) if n else math.inf


def _of_kind(kind: str, judged: Sequence[Judged]) -> Iterable[str]:
    share, se, n = coverage(judged)
    slack = 0.0 if _chance(n) <= SURE_SE else 2 * _chance(n)
    if not LEAST_COVERED - slack <= share <= MOST_COVERED + slack:
        yield f"{kind}: {share:.1%} +- {se:.1%} of {n} intervals contain the truth"
    claims = [j.claims for j in judged]
    wrong = sum(int((c & (np.abs(j.error) > CLOSE)).sum())
                for c, j in zip(claims, judged, strict=True))
    count = sum(int(c.sum()) for c in claims)
    if wrong > 0.05 * count + 2 * math.sqrt(0.95 * 0.05 * count):
        yield f"{kind}: {wrong} of {count} that claim {CLOSE:.0%} unasked are wrong"


def _of_scenario(judged: Judged) -> Iterable[str]:
    name, many = judged.scenario.name, judged.many & (not judged.scenario.hard)
    refused = int((many & ~judged.given).sum())
    if refused:
        yield f"{name}: {refused} of {many.sum()} with {MANY} readings are refused"
    if judged.bare.any():
        yield f"{name}: {judged.bare.sum()} have no interval"
    far = many & (np.abs(judged.error) > CLOSE)
    if far.any():
        worst = np.abs(judged.error[far]).max()
        yield f"{name}: {far.sum()} of {many.sum()} with {MANY} readings are off, by {worst:.1%}"
    share, se, n = coverage([judged])
    if n and share < LEAST_COVERED - 2 * _chance(n):
        yield f"{name}: {share:.1%} +- {se:.1%} of {n} intervals contain the truth"
    if not np.all(np.abs(judged.leak) <= 1e-9):
        yield f"{name}: rail is not ops + idle + unattributed, by {np.abs(judged.leak).max():.1e}"
    if (judged.scenario.work.steps >= ENOUGH_STEPS
            and not np.all(np.abs(judged.rail_error) <= RAIL_CLOSE)):
        yield f"{name}: the rail is off by {np.abs(judged.rail_error).max():.1%}"


def broken(judged: Sequence[Judged]) -> list[str]:
    """Each promise that was not kept, as a line; none is good."""
    asked = [j for j in judged if j.scenario.asked]
    lines = [line for j in asked for line in _of_scenario(j)]
    for kind in dict.fromkeys(j.scenario.meter.kind for j in asked):
        lines += _of_kind(kind, [j for j in asked if j.scenario.meter.kind == kind])
    return lines


HEAD = (f"{'scenario':40} {'ops':>5} {'given':>5} {'covered':>14} {'median':>7} "
        f"{'>=400':>6} {'refused':>7} {'worst':>6} {'sure,wrong':>11} {'rail':>6} {'s':>6}")


def line(judged: Judged) -> str:
    """A row under `HEAD`: median is of the error of all given, worst of those with many readings;
    sure, wrong: claim 5 % from fewer readings, and of these were wrong by more."""
    share, se, _ = coverage([judged])
    given, many = judged.given, judged.many
    off = np.abs(judged.error)
    both = many & given
    sure = judged.claims
    return (f"{judged.scenario.name:40} {len(given):5} {given.sum():5} "
            f"{100 * share:6.1f} +- {100 * min(se, 1):4.1f} "
            f"{100 * np.median(off[given]) if given.any() else math.nan:6.2f}% "
            f"{many.sum():6} {(many & ~given).sum():7} "
            f"{100 * off[both].max() if both.any() else math.nan:5.1f}% "
            f"{(sure & (off > CLOSE)).sum():5} /{sure.sum():4} "
            f"{100 * np.abs(judged.rail_error).max():5.2f}% {judged.run_s:6.2f}")
