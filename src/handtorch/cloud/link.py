"""When bytes that enter a link leave it and arrive: arithmetic without a clock.

A link is one direction of a network, shared by all connections. What enters leaves in turn, at the
link's rate or when its trace lets it, not during an outage; it arrives a delay later. Time is in
nanoseconds since the link's first byte.

The rate is that of the bytes themselves, without heads of packets, and is fluid: bytes leave
evenly, in pieces of a millisecond. What is drawn is drawn for each packet, which is 1500 bytes, or
what comes after the link had nothing to do:

    jitter   how late it arrives, evenly from 0; later bytes of its connection arrive no sooner
    loss     it takes the link once more and arrives a round trip later, as a sender that is told of
             a hole at once would have it. A window that shrinks, or a timeout, is not modelled
"""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from handtorch.place.network import Network, Trace

PACKET_BYTES = 1500
PIECE_NS = 1_000_000


@dataclass(frozen=True)
class Way:
    """One direction of a network."""

    name: str                           # up or down
    bps: float
    trace: Trace | None
    delay_ns: float                     # half of the round trip
    jitter_ns: float
    loss: float
    outages_ns: tuple[tuple[float, float], ...]


def ways(network: Network) -> tuple[Way, Way]:
    """Up and down."""
    outages_ns = tuple((begin * 1e9, end * 1e9) for begin, end in network.outages_s)
    rest = (network.rtt_ms * 1e6 / 2, network.jitter_ms * 1e6, network.loss, outages_ns)
    return (Way("up", network.up_bps, network.up_trace, *rest),
            Way("down", network.down_bps, network.down_trace, *rest))


class Piece(NamedTuple):
    """Bytes that leave, and arrive, together."""

    size: int
    leaves_ns: float
    arrives_ns: float


class Link:
    """The same seed and the same traffic, the same times."""

    def __init__(self, way: Way, seed: int) -> None:
        self._way, self._rng = way, random.Random(f"{seed}/{way.name}")
        self._most = PACKET_BYTES if way.trace is not None else max(
            1, int(way.bps * PIECE_NS / 8e9))
        self._free_ns = 0.0                     # when all that has entered has left
        self._left_of_packet = 0
        self._sendings, self._late_ns = 1, 0.0  # of the packet
        self._slot, self._slot_used = 0, 0      # of the trace: packets so far, bytes of the next
        self.packets = self.lost = 0

    def carry(self, now_ns: float, count: int, not_before_ns: float = 0.0) -> list[Piece]:
        """`count` bytes that enter now, none arriving before what its connection sent earlier."""
        if now_ns >= self._free_ns:
            self._left_of_packet = 0
        pieces = []
        while count > 0:
            if self._left_of_packet == 0:
                self._begin_packet()
            take = min(count, self._left_of_packet, self._most)
            leaves_ns = self._leave(now_ns, take * self._sendings)
            not_before_ns = max(not_before_ns, leaves_ns + self._way.delay_ns + self._late_ns)
            pieces.append(Piece(take, leaves_ns, not_before_ns))
            self._left_of_packet -= take
            count -= take
        return pieces

    def _begin_packet(self) -> None:
        way, self._left_of_packet, self._sendings = self._way, PACKET_BYTES, 1
        while way.loss and self._rng.random() < way.loss:
            self._sendings += 1
        self._late_ns = 2 * way.delay_ns * (self._sendings - 1)
        if way.jitter_ns:
            self._late_ns += self._rng.uniform(0, way.jitter_ns)
        self.packets += 1
        self.lost += self._sendings - 1

    def _leave(self, now_ns: float, count: int) -> float:
        """When the last of these bytes has left."""
        way, start_ns = self._way, max(now_ns, self._free_ns)
        if way.trace is not None:
            self._free_ns = self._by_trace(way.trace, now_ns, count)
        else:
            self._free_ns = self._after(start_ns, count * 8e9 / way.bps)
        return self._free_ns

    def _after(self, start_ns: float, needed_ns: float) -> float:
        """When the link has had so much time, outages not counted."""
        for begin_ns, end_ns in self._way.outages_ns:
            if end_ns <= start_ns:
                continue
            if start_ns + needed_ns <= begin_ns:
                break
            needed_ns -= max(0.0, begin_ns - start_ns)
            start_ns = end_ns
        return start_ns + needed_ns

    def _by_trace(self, trace: Trace, now_ns: float, count: int) -> float:
        """A chance that comes while nothing waits is gone, as are those during an outage."""
        at_ns = now_ns
        while count > 0:
            at_ns = self._slot_ns(trace, self._slot)
            until_ns = max(now_ns, self._after(at_ns, 0.0))
            if at_ns < until_ns:
                self._slot, self._slot_used = self._slot_at(trace, until_ns), 0
                continue
            take = min(count, trace.packet_bytes - self._slot_used)
            self._slot_used += take
            count -= take
            if self._slot_used == trace.packet_bytes:
                self._slot, self._slot_used = self._slot + 1, 0
        return at_ns

    def _slot_ns(self, trace: Trace, slot: int) -> float:
        turn, index = divmod(slot, len(trace.at_ms))
        return 1e6 * (turn * trace.span_ms + trace.at_ms[index])

    def _slot_at(self, trace: Trace, now_ns: float) -> int:
        """The first chance that is not before now."""
        turn = int(now_ns / 1e6 / trace.span_ms)
        inside = bisect_left(trace.at_ms, now_ns / 1e6 - turn * trace.span_ms)
        return max(self._slot + 1, turn * len(trace.at_ms) + inside)
