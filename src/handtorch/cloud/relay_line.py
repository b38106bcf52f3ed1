"""The inside of a relay: connections, and the two lines on which all of them meet."""

from __future__ import annotations

import heapq
import itertools
import socket
from collections import deque

from handtorch.cloud.link import Link, Way
from handtorch.cloud.relay_log import Passing


class Flow:
    """One connection in one direction: from one socket to the other."""

    def __init__(self, pair: Pair, line: Line, source: socket.socket, sink: socket.socket
                 ) -> None:
        self.pair, self.line, self.source, self.sink = pair, line, source, sink
        self.due: deque[tuple[memoryview, Passing]] = deque()
        self.last_arrival_ns = 0.0
        self.message: Passing | None = None
        self.is_read = False            # the loop watches the source
        self.read_from_ns = 0           # since when, by the monotonic clock
        self.is_blocked = False         # the loop watches the sink: it takes no more for now
        self.ended = False              # the source has no more
        self.end_due = self.done = False


class Pair:
    """A client's connection and ours to the target."""

    def __init__(self, number: int, client: socket.socket, target: socket.socket, up: Line,
                 down: Line) -> None:
        self.number, self.sockets, self.open = number, (client, target), True
        self.up, self.down = Flow(self, up, client, target), Flow(self, down, target, client)

    @property
    def flows(self) -> tuple[Flow, Flow]:
        return self.up, self.down


class Line:
    """One direction with all connections on it: the link, its queue, and what is in the air."""

    def __init__(self, way: Way, queue_bytes: int, seed: int) -> None:
        self.way, self.link, self._queue_bytes = way, Link(way, seed), queue_bytes
        self._flying: list[tuple[float, int, Flow, memoryview | None, Passing | None]] = []
        self._order = itertools.count()
        self._leaving: deque[tuple[float, int]] = deque()
        self._queued_bytes = 0
        self.waiting: deque[Flow] = deque()        # for room
        self.room_at_ns: float | None = None

    def room(self, now_ns: float) -> int:
        while self._leaving and self._leaving[0][0] <= now_ns:
            self._queued_bytes -= self._leaving.popleft()[1]
        return self._queue_bytes - self._queued_bytes

    def wait(self, flow: Flow) -> None:
        """Until a quarter of the queue is free: it never runs dry, and is not asked often."""
        self.waiting.append(flow)
        if self.room_at_ns is None:
            left, most = self._queued_bytes, self._queue_bytes * 3 // 4
            for leaves_ns, count in self._leaving:
                left -= count
                if left <= most:
                    self.room_at_ns = leaves_ns
                    return

    def put(self, flow: Flow, data: bytes, now_ns: float, message: Passing) -> None:
        whole, at = memoryview(data), 0
        for piece in self.link.carry(now_ns, len(data), flow.last_arrival_ns):
            heapq.heappush(self._flying, (piece.arrives_ns, next(self._order), flow,
                                          whole[at:at + piece.size], message))
            self._leaving.append((piece.leaves_ns, piece.size))
            flow.last_arrival_ns = piece.arrives_ns
            at += piece.size
        self._queued_bytes += len(data)

    def put_end(self, flow: Flow, now_ns: float) -> None:
        flow.last_arrival_ns = max(flow.last_arrival_ns, now_ns + self.way.delay_ns)
        heapq.heappush(self._flying, (flow.last_arrival_ns, next(self._order), flow, None, None))

    def arrived(self, now_ns: float) -> dict[Flow, float]:
        """What is due by now is the flow's; and when the latest of each was due."""
        touched: dict[Flow, float] = {}
        while self._flying and self._flying[0][0] <= now_ns:
            due_ns, _, flow, data, message = heapq.heappop(self._flying)
            if not flow.pair.open:
                continue
            if data is None or message is None:
                flow.end_due = True
            else:
                flow.due.append((data, message))
            touched[flow] = due_ns
        return touched

    @property
    def in_the_air(self) -> int:
        """Pieces that have not arrived."""
        return len(self._flying)

    def next_ns(self) -> float | None:
        """When there is something to do."""
        due = [self._flying[0][0]] if self._flying else []
        return min([*due, *([] if self.room_at_ns is None else [self.room_at_ns])], default=None)
