"""How long an exchange takes over a network: by arithmetic from its rates, and learnt from others.

    connect     a round trip, on a connection that is not open yet
    slow start  on such a connection the sender may not send all at once: ten packets, then twice as
                many each round trip. What a slow link takes for a round anyway is not waited for
    up          the request's bits at the link's rate
    flight      a round trip: the last bit there, and the first of the answer back
    down        the answer's bits
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import fmean

from handtorch.place.known import Word
from handtorch.place.network import Network, Trace

INITIAL_WINDOW_BYTES = 10 * 1460        # RFC 6928
REQUEST_HEAD_BYTES = 500                # of ours: HTTP and the protocol's JSON
ANSWER_BYTES = 900                      # five labels and the server's times
LEAST_BYTES = 32 << 10                  # a shorter transfer says more of delays than of a rate
KEPT = 8
OLDEST_S = 60.0
# Of the sum of two numbers spread evenly from 0 to 1: its 90th percentile above its mean.
_LATE = 2 - sqrt(0.2) - 1


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, step by step; `there_s` is what the server takes."""

    connect_s: float
    slow_start_s: float
    up_s: float
    flight_s: float
    down_s: float
    up_bps: float
    down_bps: float
    there_s: float = 0.0

    @property
    def network_s(self) -> float:
        return self.connect_s + self.slow_start_s + self.up_s + self.flight_s + self.down_s

    @property
    def waiting_s(self) -> float:
        """The radio is up, and nothing moves."""
        return self.connect_s + self.slow_start_s + self.flight_s + self.there_s


@dataclass(frozen=True)
class Link:
    """`slow_up_bps` is what one request in ten gets less of than that; the same if it is steady.
    `late_s` is what one in ten is late by."""

    up_bps: float
    down_bps: float
    rtt_s: float
    provenance: Word
    how: str
    slow_up_bps: float
    late_s: float = 0.0

    def exchange(self, up_bytes: float, down_bytes: float = ANSWER_BYTES, *, there_s: float = 0.0,
                 cold: bool = False, slow: bool = False) -> Exchange:
        """`cold`: no connection is open. `slow`: as one in ten is."""
        up_bps = self.slow_up_bps if slow else self.up_bps
        up_bytes += REQUEST_HEAD_BYTES
        return Exchange(
            self.rtt_s if cold else 0.0,
            slow_start_s(up_bytes, up_bps, self.rtt_s) if cold else 0.0,
            8 * up_bytes / up_bps, self.rtt_s + (self.late_s if slow else 0.0),
            8 * down_bytes / self.down_bps, up_bps, self.down_bps, there_s)


def slow_start_s(size_bytes: float, bps: float, rtt_s: float,
                 window_bytes: float = INITIAL_WINDOW_BYTES) -> float:
    """What a new connection waits for acknowledgements while its window is still small."""
    waited, left, window = 0.0, size_bytes, float(window_bytes)
    while left > window:
        waiting = rtt_s - 8 * window / bps
        if waiting <= 0:                # from here on the link is never without work
            break
        waited, left, window = waited + waiting, left - window, 2 * window
    return waited


def link_of(network: Network) -> Link:
    """What is said of a network, as a link; a trace counts with its mean and its worst tenth."""
    up, down = _rate(network.up_trace, network.up_bps), _rate(network.down_trace, network.down_bps)
    jitter_s = network.jitter_ms / 1e3  # of each of two deliveries, evenly from 0
    kept = 1 - network.loss             # what is sent again takes the link's time again
    slow = up if network.up_trace is None else slowest_tenth_bps(network.up_trace)
    return Link(up * kept, down * kept, network.rtt_ms / 1e3 + jitter_s, "simulated",
                f"network {network.name}: {network.source}", slow * kept, _LATE * jitter_s)


def _rate(trace: Trace | None, bps: float) -> float:
    return bps if trace is None else trace.mean_bps


def slowest_tenth_bps(trace: Trace, window_ms: int = 1000) -> float:
    """The rate that a tenth of all seconds of the trace stay below; never quite nothing."""
    counts = [0] * (trace.span_ms // window_ms + 1)
    for at in trace.at_ms:
        counts[min(at // window_ms, len(counts) - 1)] += 1
    whole = sorted(counts[:-1] or counts)
    return max(1, whole[len(whole) // 10]) * trace.packet_bytes * 8 / (window_ms / 1e3)


@dataclass(frozen=True)
class _Moved:
    at_s: float
    size_bytes: int
    seconds: float


class LinkEstimate:
    """A link learnt from what passed over it. Times come from the caller, so that it can be
    replayed; what is older than a minute is forgotten, for networks change."""

    def __init__(self) -> None:
        self._large: deque[_Moved] = deque(maxlen=KEPT)
        self._small: deque[_Moved] = deque(maxlen=KEPT)
        self._rtt_s: float | None = None
        self._deviation_s, self._rtt_at_s = 0.0, 0.0

    def sent(self, size_bytes: int, seconds: float, now_s: float) -> None:
        """So many bytes went up in that time."""
        if seconds > 0 and size_bytes > 0:
            kept = self._large if size_bytes >= LEAST_BYTES else self._small
            kept.append(_Moved(now_s, size_bytes, seconds))

    def answered(self, rtt_s: float, now_s: float) -> None:
        """A round trip: smoothed as TCP does (Jacobson), by an eighth, its deviation by a quarter.
        """
        rtt_s = max(0.0, rtt_s)
        if self._rtt_s is None or now_s - self._rtt_at_s > OLDEST_S:
            self._rtt_s, self._deviation_s = rtt_s, rtt_s / 2
        else:
            self._deviation_s += (abs(rtt_s - self._rtt_s) - self._deviation_s) / 4
            self._rtt_s += (rtt_s - self._rtt_s) / 8
        self._rtt_at_s = now_s

    @property
    def rtt_s(self) -> float:
        """The smoothed round trip, however old; 0 before there was one."""
        return self._rtt_s or 0.0

    def forget(self) -> None:
        """The device is on another network now."""
        self._large.clear()
        self._small.clear()
        self._rtt_s = None

    def link(self, now_s: float) -> Link | None:
        """What is known now; None if nothing of the last minute tells a rate."""
        return self._of(now_s, OLDEST_S)

    def last(self, now_s: float) -> Link | None:
        """What was known last, however long ago; better than nothing, and to be looked at again."""
        found = self._of(now_s, inf)
        if found is None:
            return None
        old_s = now_s - max(m.at_s for m in (*self._large, *self._small))
        return replace(found, how=f"{found.how}, {old_s:.0f} s ago")

    def _of(self, now_s: float, oldest_s: float) -> Link | None:
        large, small = ([m for m in kept if now_s - m.at_s <= oldest_s]
                        for kept in (self._large, self._small))
        if large:
            # Harmonic: each counts by the time that a byte took, so that a stall is seen.
            rate, fresh, word = 8 / fmean(m.seconds / m.size_bytes for m in large), large, ""
        elif small:
            # All else that a short one waits for makes the link look slower than it is.
            rate, fresh = max(8 * m.size_bytes / m.seconds for m in small), small
            word = ", the quickest of them, for all are short"
        else:
            return None
        slow = min(8 * m.size_bytes / m.seconds for m in fresh)
        return Link(rate, rate, self.rtt_s, "measured", f"the last {len(fresh)} transfers{word}",
                    slow, 2 * self._deviation_s)
