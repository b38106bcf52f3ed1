"""How exactly a relay keeps to a network, measured through it: bytes sent, and seen to come.

Both ends are this process, so that one clock has both stamps. Jitter, loss and outages are left
out: what is measured is rate and delay, against the arithmetic of the link."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

from handtorch.cloud.link import Link, Way, ways
from handtorch.cloud.relay import Relay
from handtorch.cloud.relay_log import Late
from handtorch.place.network import Network

RATE_LIMIT = 0.05
DELAY_LIMIT_MS = 2.0
_PING_BYTES = 16
_LEAST_BYTES = 16 << 10
_TIMEOUT_S = 300.0
_SETTLE_S = 0.05


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float
    count: int


def spread(values: list[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Kept:
    """One direction: what was asked for and what came of it."""

    way: str
    asked_mbps: float
    mbps: Spread
    asked_ms: float
    delay_ms: Spread

    @property
    def rate_error(self) -> float:
        return self.mbps.median / self.asked_mbps - 1

    @property
    def delay_error_ms(self) -> float:
        return self.delay_ms.median - self.asked_ms

    @property
    def good(self) -> bool:
        return abs(self.rate_error) <= RATE_LIMIT and abs(self.delay_error_ms) <= DELAY_LIMIT_MS

    def line(self) -> str:
        return (f"{self.way:<5} {self.asked_mbps:8.3f} Mb/s {self.mbps.median:8.3f} "
                f"({self.mbps.least:.3f} to {self.mbps.most:.3f}) {self.rate_error:+7.2%}   "
                f"{self.asked_ms:6.1f} ms {self.delay_ms.median:7.2f} "
                f"({self.delay_ms.least:.2f} to {self.delay_ms.most:.2f}) "
                f"{self.delay_error_ms:+6.2f} ms{'' if self.good else '  MISSED'}")


@dataclass(frozen=True)
class Accuracy:
    network: str
    ways: tuple[Kept, Kept]
    late: Late                          # the relay's own account: of streams, the last measured,
    late_alone: Late                    # and of short messages

    @property
    def good(self) -> bool:
        return all(way.good for way in self.ways)


def measured(network: Network, *, seconds: float = 1.0, times: int = 3, pings: int = 15
             ) -> Accuracy:
    """Through relays of this network, made for it: rates over about `seconds`, `times` times."""
    steady = replace(network, jitter_ms=0.0, loss=0.0, outages_s=())
    fluid = replace(steady, up_trace=None, down_trace=None)
    with _ends(fluid) as (near, far, relay):
        delays = [_delays_ms(near, far, pings, network.up_bps),
                  _delays_ms(far, near, pings, network.down_bps)]
        late_alone = relay.log().late
    rates, late = [], Late(0, None, None, None)
    for way in ways(steady):
        found, late = _rates_mbps(steady, way, seconds, times)
        rates.append(found)
    up, down = (Kept(way.name, _asked_mbps(way, _bytes(way, seconds)), spread(mbps),
                     way.delay_ns / 1e6, spread(ms))
                for way, mbps, ms in zip(ways(steady), rates, delays, strict=True))
    return Accuracy(network.name, (up, down), late, late_alone)


def _bytes(way: Way, seconds: float) -> int:
    return max(_LEAST_BYTES, int(way.bps * seconds / 8))


def _asked_mbps(way: Way, count: int) -> float:
    """The rate that the link's arithmetic has for so many bytes: of a trace, its beginning's."""
    taken_ns = Link(way, 0).carry(0.0, count)[-1].arrives_ns - way.delay_ns
    return count * 8e3 / taken_ns


@contextmanager
def _ends(network: Network) -> Iterator[tuple[socket.socket, socket.socket, Relay]]:
    """A connection through a relay: the client's end, the server's end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
        with (Relay("127.0.0.1", port, network) as relay,
              socket.create_connection((relay.host, relay.port), timeout=_TIMEOUT_S) as near):
            listening.settimeout(_TIMEOUT_S)
            far, _ = listening.accept()
            with far:
                for sock in (near, far):
                    sock.settimeout(_TIMEOUT_S)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                time.sleep(network.rtt_ms / 1e3 + _SETTLE_S)    # the handshake
                yield near, far, relay


def _rates_mbps(network: Network, way: Way, seconds: float, times: int
                ) -> tuple[list[float], Late]:
    """A trace begins with a relay, so that each transfer of it has a relay of its own."""
    count, found, late = _bytes(way, seconds), [], Late(0, None, None, None)
    for _ in range(1 if way.trace is None else times):
        with _ends(network) as (near, far, relay):
            source, sink = (near, far) if way.name == "up" else (far, near)
            for _ in range(times if way.trace is None else 1):
                taken_ns = _carried_ns(source, sink, count) - way.delay_ns
                found.append(count * 8e3 / taken_ns)
            late = relay.log().late
    return found, late


def _carried_ns(source: socket.socket, sink: socket.socket, count: int) -> int:
    sending = threading.Thread(target=source.sendall, args=(bytes(count),))
    begin_ns = time.monotonic_ns()
    sending.start()
    _received(sink, count)
    end_ns = time.monotonic_ns()
    sending.join()
    return end_ns - begin_ns


def _delays_ms(source: socket.socket, sink: socket.socket, pings: int, bps: float) -> list[float]:
    """Of short messages, without the time that the link's rate takes for them."""
    found = []
    for number in range(pings):
        time.sleep(0.004 + 0.00037 * number)    # not in step with a loop that wakes each ms
        begin_ns = time.monotonic_ns()
        source.sendall(bytes(_PING_BYTES))
        _received(sink, _PING_BYTES)
        found.append((time.monotonic_ns() - begin_ns) / 1e6 - _PING_BYTES * 8e3 / bps)
    return found


def _received(sink: socket.socket, count: int) -> None:
    while count > 0:
        got = len(sink.recv(1 << 16))
        if not got:
            raise ConnectionError("the relay has closed the connection")
        count -= got
