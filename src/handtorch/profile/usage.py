"""How busy the cores were during the steps, and how well that is foretold: figures of the paper
"Performance characterization of training on mobile devices", from counters instead of samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

import numpy as np

from handtorch.profile.group import Group, groups
from handtorch.profile.predict import FEW, few, predictability
from handtorch.profile.summary import STUDY
from handtorch.record import Result, Run, Sample

UTILISATION, IDLE_RATIO, ZERO_RATIO = "utilisation", "idle-state ratio", "readings without use"
CORES_USED, NEXT_USE = "cores used by the process", "error of the next step's use"
_CORE = re.compile(r"(cpu\d+)_busy_s")
_PROCESS = "process_busy_s"
_MOST_UNSURE = 0.1


@dataclass(frozen=True)
class Counter:
    """Readings of a counter in seconds, in order of time; `tick_s` is its least step."""

    times_ns: np.ndarray
    seconds: np.ndarray
    tick_s: float

    def between(self, start_ns: int, end_ns: int) -> float | None:
        """What it counted in that time; None where it was not read on both sides."""
        if len(self.times_ns) < 2 or start_ns < self.times_ns[0] or end_ns > self.times_ns[-1]:
            return None
        a, b = np.interp([start_ns, end_ns], self.times_ns, self.seconds)
        return float(b - a)

    @property
    def unsure_s(self) -> float:
        """By which that may be wrong for one core: a tick, and at each end, where it is had from
        the readings on both sides, a quarter of the time between them."""
        apart_ns = float(np.median(np.diff(self.times_ns))) if len(self.times_ns) > 1 else 0.0
        return self.tick_s + apart_ns / 2e9


def usage_rows(run: Run) -> Iterator[Result]:
    """Of the time from the first step's start to the last one's end, for each subject and place."""
    for group in groups(run):
        window = group.steps[0].start_ns, group.steps[-1].end_ns
        cores = {match[1]: counter(run, s.meter, s.quantity) for s in run.signals
                 if (match := _CORE.fullmatch(s.quantity)) and s.kind == "counter"}
        yield from _cores(group, cores, window)
        clocks = [counter(run, s.meter, s.quantity) for s in run.signals if s.quantity == _PROCESS]
        if clocks:
            yield from _process(group, max(clocks, key=lambda c: len(_known(group, c))))


def counter(run: Run, meter: str, quantity: str) -> Counter:
    seen = [s for s in run.samples if (s.meter, s.quantity) == (meter, quantity)]
    known = [(s.time_ns, s.value) for s in _rising(seen)]
    (signal,) = [s for s in run.signals if (s.meter, s.quantity) == (meter, quantity)]
    return Counter(np.array([t for t, _ in known], np.int64), np.array([v for _, v in known]),
                   signal.step)


def _rising(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Without those that are missing, and those at which the kernel took a tick back."""
    highest = float("-inf")
    for sample in samples:
        if sample.value is not None and sample.value >= highest:
            highest = sample.value
            yield sample


def _cores(group: Group, cores: dict[str, Counter], window: tuple[int, int]) -> Iterator[Result]:
    wall_s = (window[1] - window[0]) / 1e9
    shares = []
    for name, read in sorted(cores.items(), key=lambda kv: int(kv[0][3:])):
        used = read.between(*window)
        if used is None:
            why = "it was not read before the first step and after the last"
            yield _row(group, f"{UTILISATION} {name}", None, why)
            continue
        unsure = read.unsure_s / wall_s
        if unsure > _MOST_UNSURE:
            yield _row(group, f"{UTILISATION} {name}", None, f"the steps took {wall_s:.3f} s, and "
                       f"its counter tells {read.unsure_s:.3f} s at best: take more steps")
            continue
        share = min(1.0, used / wall_s)
        shares.append(share)
        low, high = max(0.0, share - unsure), min(1.0, share + unsure)
        yield _row(group, f"{UTILISATION} {name}", share, low=low, high=high)
        yield _row(group, f"{IDLE_RATIO} {name}", 1 - share, low=1 - high, high=1 - low)
        yield _row(group, f"{ZERO_RATIO} {name}", _still(read, window))
    if shares and len(shares) == len(cores):
        yield _row(group, f"{UTILISATION} mean of cores", mean(shares))


def _still(read: Counter, window: tuple[int, int]) -> float:
    """The share of readings since which the counter had not moved: the paper's idle-state ratio,
    which is coarse, since a counter of 10 ms stands still while a core is a little busy."""
    inside = [v for t, v in zip(read.times_ns, read.seconds, strict=True)
              if window[0] <= t <= window[1]]
    moves = [b - a for a, b in pairwise(inside)]
    return sum(m == 0 for m in moves) / len(moves) if moves else 0.0


def _known(group: Group, read: Counter) -> list[float]:
    """Cores used in each step during which the counter was read. Torch's steps may be those of
    another process, which has a clock of its own: theirs is the one that was read."""
    used = [read.between(s.start_ns, s.end_ns) for s in group.steps]
    return [u / max(s.end_ns - s.start_ns, 1) * 1e9
            for u, s in zip(used, group.steps, strict=True) if u is not None]


def _process(group: Group, read: Counter) -> Iterator[Result]:
    known = _known(group, read)
    if not known:
        yield _row(group, CORES_USED, None, "it was not read before and after a step", "cores")
        return
    ordered = sorted(known)
    n = len(ordered)
    yield _row(group, CORES_USED, median(ordered), unit="cores", repeats=n,
               spread=ordered[3 * n // 4] - ordered[n // 4] if n > 1 else None)
    foretold = predictability(known)
    if foretold is None or foretold.steps < FEW:
        yield _row(group, NEXT_USE, None, f"it {few(len(known))}", "%")
    elif foretold.errors:
        yield _row(group, NEXT_USE, 100 * foretold.errors[foretold.estimator], unit="%")


def _row(group: Group, name: str, value: float | None, why: str = "", unit: str = "share",
         low: float | None = None, high: float | None = None, repeats: int = 1,
         spread: float | None = None) -> Result:
    step = group.steps[0]
    return Result(study=STUDY, name=name, subject=step.subject, place=step.place, value=value,
                  value_reason=why, unit=unit, better="neither",
                  repeats=repeats if value is not None else 0, spread=spread, low=low, high=high,
                  bounds="" if low is None else "what its counter can tell", provenance="measured")
