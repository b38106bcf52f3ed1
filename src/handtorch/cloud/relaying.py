"""A relay that runs: sockets on one side, links in the middle, sockets on the other.

Bytes are read, given their times by `Link`, and written when they are due. Times are absolute, so
that a late wake-up delays what was due and nothing after it. It wakes once in a millisecond at
most, and then writes what is due within half of one: in a stream as often too soon as too late.

A sleeping core is woken late, and twice: when bytes come and when they are due. The first costs
nothing, because bytes enter the link when the kernel has them (its stamp), not when we do. For the
second it wakes early and polls until the time has come, for what stands alone: `Waking`.

A link takes no more than its queue: then nobody's bytes are read until some have left, and what
senders have in their sockets stays there. The sockets' own buffers are small for the same reason.
A new connection is read from one round trip after it came: what its handshake would have taken."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass

from handtorch.cloud.addresses import family
from handtorch.cloud.link import ways
from handtorch.cloud.relay_line import Flow, Line, Pair
from handtorch.cloud.relay_log import Passing, RelayLog, Writing
from handtorch.cloud.relay_waking import Waking
from handtorch.cloud.stamped import received, stamp
from handtorch.errors import BadInput, HandTorchError
from handtorch.place.network import Network

MOST_BPS = 200e6            # beyond it, its own work is what would be measured
_PERIOD_NS = 1_000_000      # between two times that it wakes to write
_PAUSE_NS = 5e6             # what comes so long after the last is not in the middle of a stream
_QUEUE_NS = 5e6             # a queue of less runs dry before the loop wakes
_READ_BYTES = 16 << 10      # of one connection before another has its turn
_SOCKET_BYTES = 32 << 10
_SEGMENT_BYTES = 1448       # loopback's of 64 KB is more than such a buffer, and then stalls
_CONNECT_S = 10.0


@dataclass(frozen=True)
class RelaySettings:
    target_host: str
    target_port: int
    network: Network
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    connections: int = 64


def check_network(network: Network) -> None:
    """Refuses what this relay could not keep to."""
    for way in ways(network):
        if not 0 < way.bps <= MOST_BPS:
            raise BadInput(f"network {network.name}: {way.name} at {way.bps / 1e6:g} Mb/s",
                           why=f"a relay in user space keeps up to {MOST_BPS / 1e6:g} Mb/s")
        least = int(way.bps * _QUEUE_NS / 8e9)
        if network.queue_bytes < least:
            raise BadInput(f"network {network.name}: a queue of {network.queue_bytes} B",
                           why=f"at {way.bps / 1e6:g} Mb/s that is less than "
                               f"{_QUEUE_NS / 1e6:g} ms: the link would run dry",
                           fix=f"{least} B or more")


class Relaying:
    """Listens from `start` on; `close` ends every connection."""

    def __init__(self, settings: RelaySettings) -> None:
        check_network(settings.network)
        self._settings = settings
        network, seed = settings.network, settings.seed
        self._up, self._down = (Line(way, network.queue_bytes, seed) for way in ways(network))
        self._pairs: set[Pair] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None
        self._timer_ns = self._woke_ns = 0.0    # for when it is set; when it last was due
        self._asked_ns: float | None = None     # when a sleep was to end
        self._polling_ns: float | None = None   # since when it polls instead
        self._waking = Waking()
        self._origin_ns: int | None = None      # of all times: the first byte of all
        self._writing = Writing()

    def start(self) -> int:
        """The port; must be called in the loop that is to do the work."""
        self._loop = asyncio.get_running_loop()
        self._listening = _listen(self._settings.host, self._settings.port)
        self._loop.add_reader(self._listening, self._accept)
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for task in self._opening:
            task.cancel()
        for pair in tuple(self._pairs):
            self._end(pair)
        if self._timer is not None:
            self._timer.cancel()

    def log(self) -> RelayLog:
        lines = (self._up, self._down)
        self._writing.polled_ns = self._waking.polled_ns
        return self._writing.log(self._settings.network.name,
                                 {line.way.name: line.link.packets for line in lines},
                                 {line.way.name: line.link.lost for line in lines})

    # Connections.

    def _accept(self) -> None:
        try:
            client, _ = self._listening.accept()
        except OSError:                         # it has left again, or no descriptor is free
            return
        if len(self._pairs) + len(self._opening) >= self._settings.connections:
            self._writing.refused += 1
            client.close()
            return
        task = self._loop.create_task(self._open(client, time.monotonic_ns()))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, client: socket.socket, came_ns: int) -> None:
        settings = self._settings
        target = _small(settings.target_host)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.sock_connect(target, (settings.target_host, settings.target_port))
        except (OSError, TimeoutError, asyncio.CancelledError):
            self._writing.refused += 1
            client.close()
            target.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamp(client)
        stamp(target)
        self._writing.connections += 1
        pair = Pair(self._writing.connections, client, target, self._up, self._down)
        self._pairs.add(pair)
        self._read(pair.down)
        handshake_s = settings.network.rtt_ms / 1e3 - (time.monotonic_ns() - came_ns) / 1e9
        self._loop.call_later(max(0.0, handshake_s), self._read, pair.up)

    def _end(self, pair: Pair) -> None:
        """Both sockets are closed; what is still in the air for them is dropped."""
        pair.open = False
        self._pairs.discard(pair)
        for sock in pair.sockets:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
            sock.close()

    # Bytes in.

    def _read(self, flow: Flow) -> None:
        if flow.pair.open and not flow.is_read and not flow.ended and not flow.is_blocked:
            flow.is_read, flow.read_from_ns = True, time.monotonic_ns()
            self._loop.add_reader(flow.source, self._readable, flow)

    def _rest(self, flow: Flow) -> None:
        if flow.is_read:
            flow.is_read = False
            self._loop.remove_reader(flow.source)

    def _readable(self, flow: Flow) -> None:
        clock_ns, line = time.monotonic_ns(), flow.line
        now_ns = 0.0 if self._origin_ns is None else float(clock_ns - self._origin_ns)
        room = line.room(now_ns)
        if room <= 0 or line.waiting:           # those who waited longer go first
            self._rest(flow)
            line.wait(flow)
            self._arm()
            return
        try:
            data, came_ns = received(flow.source, min(room, _READ_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._end(flow.pair)
            return
        # What came while the flow was not to be read enters now: the queue was full, or its
        # handshake not over.
        came_ns = clock_ns if came_ns is None else min(clock_ns, max(came_ns, flow.read_from_ns))
        if self._origin_ns is None:
            self._origin_ns = came_ns
        if data:
            self._writing.read.add(clock_ns - came_ns)
            line.put(flow, data, came_ns - self._origin_ns,
                     self._message(flow, len(data), came_ns))
        else:
            flow.ended = True
            self._rest(flow)
            line.put_end(flow, clock_ns - self._origin_ns)
        self._arm()

    def _message(self, flow: Flow, count: int, clock_ns: int) -> Passing:
        """The one these bytes belong to: the other way's turn is over."""
        pair, way = flow.pair, flow.line.way
        if flow.message is None:
            flow.message = self._writing.begin(Passing(pair.number, way.name, way.delay_ns / 1e6,
                                                       clock_ns))
        (pair.down if flow is pair.up else pair.up).message = None
        flow.message.entered(count, clock_ns)
        return flow.message

    # Bytes out.

    def _arm(self) -> None:
        assert self._origin_ns is not None, "armed before its first byte"
        times = [at for line in (self._up, self._down) if (at := line.next_ns()) is not None]
        if not times:
            return
        when_ns = max(min(times), self._woke_ns + _PERIOD_NS)
        if self._timer is not None:
            if self._timer_ns <= when_ns:
                return
            self._timer.cancel()
        self._timer_ns = when_ns
        now_ns = time.monotonic_ns() - self._origin_ns
        until_ns = when_ns - (self._waking.early_ns(now_ns) if self._stands_alone(when_ns) else 0.0)
        if until_ns <= now_ns:
            self._asked_ns, self._timer = None, self._loop.call_soon(self._wake)
        else:
            self._asked_ns = until_ns
            self._timer = self._loop.call_later((until_ns - now_ns) / 1e9, self._wake)

    def _stands_alone(self, when_ns: float) -> bool:
        """What is due then comes after a pause, or is the last: somebody waits for it. In a stream
        the one too late is followed by one too soon."""
        return (when_ns - self._woke_ns > _PAUSE_NS
                or self._up.in_the_air + self._down.in_the_air == 1)

    def _wake(self) -> None:
        assert self._origin_ns is not None
        now_ns = time.monotonic_ns() - self._origin_ns
        if self._asked_ns is not None:
            self._waking.woke(now_ns - self._asked_ns)
            self._writing.woken.add(now_ns - self._asked_ns)
            self._asked_ns = None
        if now_ns < self._timer_ns:             # early: look after the sockets, and come again
            self._polling_ns = now_ns if self._polling_ns is None else self._polling_ns
            self._timer = self._loop.call_soon(self._wake)
            return
        if self._polling_ns is not None:
            self._waking.polled(now_ns - self._polling_ns)
            self._polling_ns = None
        self._timer, self._woke_ns = None, now_ns
        self._deliver()
        self._arm()

    def _deliver(self) -> None:
        """What is due, and is soon, leaves; who waited for room is read again."""
        assert self._origin_ns is not None
        for line in (self._up, self._down):
            now_ns = time.monotonic_ns() - self._origin_ns + _PERIOD_NS // 2
            for flow, due_ns in line.arrived(now_ns).items():
                self._flush(flow)
                self._writing.late.add(time.monotonic_ns() - self._origin_ns - due_ns)
            if line.room_at_ns is not None and line.room_at_ns <= now_ns:
                line.room_at_ns = None
                waited, line.waiting = line.waiting, deque()
                for flow in waited:
                    self._read(flow)

    def _flush(self, flow: Flow) -> None:
        """All that is due, as far as the sink takes it."""
        if not flow.pair.open:
            return
        try:
            while flow.due:
                at_ns = time.monotonic_ns()     # before: an answer's stamp may be of meanwhile
                sent = flow.sink.send(b"".join(data for data, _ in flow.due))
                self._left(flow, sent, at_ns)
        except (BlockingIOError, InterruptedError):
            if not flow.is_blocked:
                flow.is_blocked = True
                self._rest(flow)
                self._loop.add_writer(flow.sink, self._flush, flow)
            return
        except OSError:
            self._end(flow.pair)
            return
        if flow.is_blocked:
            flow.is_blocked = False
            self._loop.remove_writer(flow.sink)
            self._read(flow)
        if flow.end_due and not flow.done:
            self._finish(flow)

    def _left(self, flow: Flow, count: int, at_ns: int) -> None:
        while count > 0:
            data, message = flow.due[0]
            take = min(count, len(data))
            message.left(take, at_ns)
            count -= take
            if take == len(data):
                flow.due.popleft()
            else:
                flow.due[0] = (data[take:], message)

    def _finish(self, flow: Flow) -> None:
        flow.done = True
        if all(other.done for other in flow.pair.flows):
            self._end(flow.pair)
            return
        try:
            flow.sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(flow.pair)


def precise_loop() -> asyncio.AbstractEventLoop:
    """One that wakes when it is asked to: epoll's timeouts are whole milliseconds, select's are
    not, and a relay has few sockets."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _small(host: str) -> socket.socket:
    """Little of a message hides in its buffers, and nothing waits to be sent with more."""
    sock = socket.socket(family(host), socket.SOCK_STREAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def _listen(host: str, port: int) -> socket.socket:
    listening = _small(host)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as e:
        listening.close()
        raise HandTorchError(f"the relay cannot listen on {host}:{port}",
                             why=getattr(e, "strerror", None) or str(e),
                             fix="another --host or --port; 0 takes a free one") from e
    return listening
