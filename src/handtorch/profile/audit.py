"""What recording costs: steps with and without it, in random order, and the ratio of each pair."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

LEAST = 9                       # pairs, for an interval that does not end at the wildest
_SURE = 0.95
Clock = Callable[[], int]


@dataclass(frozen=True)
class Overhead:
    """How much longer a recorded step takes, in percent: the median of `pairs`, and the bounds of
    a 95 % interval for it; None where there are fewer than LEAST pairs."""

    percent: float
    low: float | None
    high: float | None
    quartiles: float
    pairs: int


@dataclass(frozen=True)
class Audited:
    """The same steps by two clocks: the time on the wall, which other programs disturb, and the
    time of all processors that this process used, which they disturb less."""

    wall: Overhead
    cpu: Overhead


def audit(step: Callable[[], object], switch: Callable[[bool], None], pairs: int, *,
          seed: int = 0, wall: Clock = time.monotonic_ns, cpu: Clock = time.process_time_ns
          ) -> Audited:
    """Run `pairs` of steps, one recorded and one not, in an order drawn for each pair; `step` must
    wait for its result, `switch` is told before each what it is to be."""
    assert pairs > 0, pairs
    draw = random.Random(seed)
    spent: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for _ in range(pairs):
        first = draw.random() < 0.5
        for on in (first, not first):
            switch(on)
            begin = wall(), cpu()
            step()
            spent[on].append((wall() - begin[0], cpu() - begin[1]))
    return Audited(*(compared([t[i] for t in spent[True]], [t[i] for t in spent[False]])
                     for i in range(2)))


def compared(with_ns: Sequence[int], without_ns: Sequence[int]) -> Overhead:
    """By the ratios of pairs, because a machine's mood changes from minute to minute; by their
    median, because a step that another program interrupted says nothing."""
    percent = sorted(100 * (a / max(b, 1) - 1)
                     for a, b in zip(with_ns, without_ns, strict=True))
    n = len(percent)
    inner = _rank(n)
    return Overhead(median(percent), None if inner is None else percent[inner],
                    None if inner is None else percent[n - 1 - inner],
                    percent[3 * n // 4] - percent[n // 4], n)


def _rank(n: int) -> int | None:
    """The rank from either end between which the median lies in 95 % of all cases, whatever the
    distribution; None where that is the ends: how far they lie is chance."""
    outside, rank = 0.0, None
    for k in range(n // 2):
        outside += 2 * comb(n, k) / 2**n
        if outside > 1 - _SURE:
            break
        rank = k
    return rank or None
