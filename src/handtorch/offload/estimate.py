"""Estimate: how long a call takes at a place, as a function of the load there, while it changes.

The logarithm of a latency is a curve over the load plus a level that moves. The curve has knots and
learns slowly; before anything is known it is that of a fair scheduler, 1 / (1 - load). The level
is a random walk followed by a Kalman filter of one number: it forgets with time, and what was seen
after a long pause counts for more than what was seen in a row. An observation far off is cut to
a few times the usual deviation, until several in a row say the same: then the place has changed.
"""

from __future__ import annotations

from math import exp, log, sqrt

STEP = 0.15
KNOTS = 7                                   # 0, 0.15, ... 0.9
HIGHEST = STEP * (KNOTS - 1)
WALK_PER_S = 0.0016                         # variance of the level's logarithm in a second
MOST_VARIANCE = 0.25
CUT = 2.5                                   # deviations
BELIEVED_AFTER = 3                          # cut ones in a row, all to the same side
LEAST_GAIN = 0.03                           # of a knot, however often it was seen
FIRST_DEVIATION = 0.15
LEAST_DEVIATION = 0.02


def _start(share: float) -> float:
    return -log(1 - min(share, HIGHEST))


class Estimate:
    """Latencies go in with the load under which they were seen; predictions come out, in seconds.

    A load that is unknown counts as one fixed load: the level alone then follows the place."""

    __slots__ = ("_curve", "_deviation", "_level", "_off", "_seen", "_variance", "count", "seen_s")

    def __init__(self) -> None:
        self._curve = [_start(STEP * k) for k in range(KNOTS)]
        self._seen = [0.0] * KNOTS
        self._level, self._variance, self._deviation = 0.0, MOST_VARIANCE, FIRST_DEVIATION
        self._off = 0                       # cut observations in a row, negative if below
        self.count, self.seen_s = 0, 0.0

    def predict(self, share: float | None) -> float:
        """Seconds of a call under this load; nothing is known before the first `learn`."""
        assert self.count, "ask only after the first observation"
        at, part = _knot(share)
        curve = self._curve
        return exp(curve[at] + part * (curve[at + 1] - curve[at]) + self._level)

    def learn(self, share: float | None, latency_s: float, now_s: float) -> None:
        """A call took so long under this load."""
        at, part = _knot(share)
        curve, seen, seen_log = self._curve, self._seen, log(max(latency_s, 1e-9))
        here = curve[at] + part * (curve[at + 1] - curve[at])
        if not self.count:
            self._level = seen_log - here
        else:
            walked = self._variance + WALK_PER_S * max(0.0, now_s - self.seen_s)
            self._variance = min(MOST_VARIANCE, walked)
        self.count, self.seen_s = self.count + 1, now_s
        error = self._cut(seen_log - here - self._level)
        noise = self._deviation * self._deviation
        gain = self._variance / (self._variance + noise)
        self._level += gain * error
        self._variance *= 1 - gain
        rest = (1 - gain) * error           # what the level did not take goes to the curve
        for k, weight in ((at, 1 - part), (at + 1, part)):
            seen[k] += weight
            curve[k] += weight * max(LEAST_GAIN, 1 / (2 + seen[k])) * rest

    def _cut(self, error: float) -> float:
        """`error`, cut if it is an outlier; the usual deviation is brought up to date."""
        # Beside the noise, what the level may have moved meanwhile is no outlier.
        most = CUT * sqrt(self._deviation**2 + self._variance)
        if abs(error) <= most or self.count <= BELIEVED_AFTER:
            self._off = 0
        else:
            side = 1 if error > 0 else -1
            self._off = self._off + side if self._off * side > 0 else side
            if abs(self._off) < BELIEVED_AFTER:
                error = side * most
            else:                           # the place has changed: start over from here
                self._off, self._variance = 0, MOST_VARIANCE
        usual = min(abs(error), most)
        self._deviation += 0.05 * (1.25 * usual - self._deviation)
        self._deviation = max(LEAST_DEVIATION, self._deviation)
        return error


def _knot(share: float | None) -> tuple[int, float]:
    """The knot below and how far it is to the next, 0 to 1."""
    x = 0.0 if share is None else min(max(share, 0.0), HIGHEST) / STEP
    at = min(int(x), KNOTS - 2)
    return at, x - at
