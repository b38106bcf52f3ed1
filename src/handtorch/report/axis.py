"""One axis of a chart: its range, its ticks, and where on it a value lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from handtorch.report.spell import size, tick


@dataclass(frozen=True)
class Axis:
    """`at` maps `low` to 0 and `high` to 1; a logarithmic axis holds positive values only."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def x_axis(values: Sequence[float], most_ticks: int = 10) -> Axis:
    """Exactly as wide as the values; logarithmic when they grow by factors, as batch sizes do."""
    low, high = min(values), max(values)
    if _grows_by_factors(values):
        return Axis(low, high, True, _log_ticks(low, high, most_ticks))
    if low == high:
        return Axis(low - 0.5, high + 0.5, False, ((low, tick(low)),))
    own = sorted(set(values), reverse=True)
    if len(own) <= 2 * most_ticks:  # few enough to name: the last, and every second if need be
        own = own[::math.ceil(len(own) / most_ticks)]
        return Axis(low, high, False, tuple((x, tick(x)) for x in reversed(own)))
    return Axis(low, high, False, _linear_ticks(low, high, most_ticks))


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a linear axis would press the smaller of these flat against its foot."""
    return min(values) > 0 and max(values) / min(values) >= 50


def y_axis(values: Sequence[float], most_ticks: int = 7, *, log: bool = False) -> Axis:
    """Room above and below the values; a linear one starts at zero unless that hides the shape.

    Widened to the ticks around the values, so that no line touches the frame."""
    low, high = min(values), max(values)
    if log:
        low, high = low / 1.25, high * 1.25
        return Axis(low, high, True, _log_ticks(low, high, most_ticks))
    if 0 <= low <= 0.6 * high:
        low = 0.0
    if low == high:
        low, high = (low - 0.5 * abs(low), high + 0.5 * abs(high)) if low else (0.0, 1.0)
    step = _nice_step((high - low) / (most_ticks - 1))
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Axis(low, high, False, _linear_ticks(low, high, most_ticks))


def log_axis(low: float, high: float, most_ticks: int) -> Axis:
    """From `low` to `high`, both positive, as they are."""
    return Axis(low, high, True, _log_ticks(low, high, most_ticks))


def size_axis(most_bytes: int, most_ticks: int = 6) -> Axis:
    """From zero to a little above `most_bytes`, in powers of 1024 as devices state theirs."""
    scale = next(1 << k for k in (30, 20, 10, 0) if most_bytes >= 1 << k or k == 0)
    made = y_axis([0.0, max(most_bytes / scale, 1.0)], most_ticks)
    return Axis(0.0, made.high * scale, False,
                tuple((v * scale, size(v * scale)) for v, _ in made.ticks))


def _grows_by_factors(values: Sequence[float]) -> bool:
    ordered = sorted(set(values))
    gaps = [b - a for a, b in pairwise(ordered)]
    uneven = len(gaps) >= 2 and max(gaps) > 1.5 * min(gaps)
    return uneven and ordered[0] > 0 and ordered[-1] >= 8 * ordered[0]


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def _linear_ticks(low: float, high: float, most: int) -> tuple[tuple[float, str], ...]:
    step = _nice_step((high - low) / (most - 1))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return tuple((v, tick(v)) for v in (round((first + i) * step, 12) for i in range(count)))


def _log_ticks(low: float, high: float, most: int) -> tuple[tuple[float, str], ...]:
    """Powers of two if both ends are such; else 1, 2, 5; fewer where these would crowd.

    Over a factor of 8 or more, which is when it is asked for, there is always one."""
    if math.log2(low).is_integer() and math.log2(high).is_integer():
        powers = range(round(math.log2(low)), round(math.log2(high)) + 1)
        stride = math.ceil(len(powers) / most)
        return tuple((2.0**p, tick(2.0**p)) for p in powers[::stride])
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [v for d in decades for m in steps if low <= (v := m * 10.0**d) <= high]
        if len(ticks) <= most:
            break
    stride = math.ceil(len(ticks) / most)
    return tuple((v, tick(v)) for v in ticks[::stride])
