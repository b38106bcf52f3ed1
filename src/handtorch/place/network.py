"""A way from the device to a server and back: how fast, how far, how steady."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """When a link could carry one packet each, over a span that repeats. Milliseconds."""

    at_ms: tuple[int, ...]
    packet_bytes: int = 1500

    @property
    def span_ms(self) -> int:
        return self.at_ms[-1]

    @property
    def mean_bps(self) -> float:
        return len(self.at_ms) * self.packet_bytes * 8 / (self.span_ms / 1e3)


@dataclass(frozen=True)
class Network:
    """`up` leaves the device. With a trace, that direction's rate is the trace's, not `_bps`."""

    name: str
    up_bps: float
    down_bps: float
    rtt_ms: float                       # both ways together, without any queue
    radio: str                          # which radio of the device carries it: wifi, lte, 3g
    source: str
    jitter_ms: float = 0.0              # what a delivery may be late by, evenly spread from 0
    loss: float = 0.0                   # share of packets that have to be sent again
    queue_bytes: int = 256 << 10        # what the link holds before the sender has to wait
    outages_s: tuple[tuple[float, float], ...] = ()     # begin and end, from the first byte on
    up_trace: Trace | None = None
    down_trace: Trace | None = None
    unconfirmed: tuple[str, ...] = ()   # which figures nobody has read in their source
