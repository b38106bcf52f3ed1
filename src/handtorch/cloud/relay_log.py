"""What a relay saw: each message of each connection, and how late it was itself.

A message is what went one way until the other way had its turn: with HTTP, a request or an answer.
Stamps are the monotonic clock's, which all processes of a machine share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

KEPT = 10_000                   # messages; of more, the latest
_BUCKET_NS = 10_000
_BUCKETS = 10_000               # up to 100 ms late; the largest is kept apart


@dataclass(frozen=True)
class Burst:
    """One message. `last_out_ns` is of what has left so far, None if nothing has."""

    connection: int
    way: str                            # up or down
    in_bytes: int
    out_bytes: int
    first_in_ns: int
    last_in_ns: int
    first_out_ns: int | None
    last_out_ns: int | None
    delay_ms: float                     # of this way, when nothing is in it

    @property
    def complete(self) -> bool:
        return self.out_bytes == self.in_bytes

    @property
    def whole_ms(self) -> float | None:
        """From its first byte in to its last byte out."""
        return None if self.last_out_ns is None else (self.last_out_ns - self.first_in_ns) / 1e6

    @property
    def carried_ms(self) -> float | None:
        """The same without the way itself: what rate, queue, jitter, loss and outages made of it.

        This is what a step `upload` is of: bytes on their way are in no step (ADR 26)."""
        return None if self.whole_ms is None else self.whole_ms - self.delay_ms


@dataclass(frozen=True)
class Late:
    """By how much a time was missed; before it is < 0."""

    count: int
    median_ms: float | None
    p99_ms: float | None
    most_ms: float | None


@dataclass(frozen=True)
class RelayLog:
    network: str
    connections: int
    refused: int                        # more at once than it takes, or nobody at the target
    packets: Mapping[str, int]          # by way
    lost: Mapping[str, int]             # sent again, by way
    late: Late                          # deliveries, after what the link's arithmetic gives
    read: Late                          # bytes read, after the kernel had them; delays nothing
    woken: Late                         # ends of sleeps; it sleeps less for it
    polled_ms: float                    # instead of sleeping
    bursts: tuple[Burst, ...]
    left_out: int                       # messages before these

    def last(self, way: str = "up") -> Burst | None:
        """The latest message that went through whole."""
        return next((b for b in reversed(self.bursts) if b.way == way and b.complete), None)

    def to_record(self) -> dict[str, Any]:
        record = asdict(self)
        for told, burst in zip(record["bursts"], self.bursts, strict=True):
            told |= {"whole_ms": burst.whole_ms, "carried_ms": burst.carried_ms}
        return record


def log_of(record: Mapping[str, Any]) -> RelayLog:
    """A log that has travelled as JSON."""
    derived = {"whole_ms", "carried_ms"}
    bursts = tuple(Burst(**{k: v for k, v in told.items() if k not in derived})
                   for told in record["bursts"])
    lates = {name: Late(**record[name]) for name in ("late", "read", "woken")}
    return RelayLog(**{**record, **lates, "bursts": bursts})


@dataclass
class Passing:
    """A message while it passes."""

    connection: int
    way: str
    delay_ms: float
    first_in_ns: int
    last_in_ns: int = 0
    first_out_ns: int | None = None
    last_out_ns: int | None = None
    in_bytes: int = 0
    out_bytes: int = 0

    def entered(self, count: int, at_ns: int) -> None:
        self.in_bytes, self.last_in_ns = self.in_bytes + count, at_ns

    def left(self, count: int, at_ns: int) -> None:
        if self.first_out_ns is None:
            self.first_out_ns = at_ns
        self.out_bytes, self.last_out_ns = self.out_bytes + count, at_ns

    def burst(self) -> Burst:
        return Burst(self.connection, self.way, self.in_bytes, self.out_bytes, self.first_in_ns,
                     self.last_in_ns, self.first_out_ns, self.last_out_ns, self.delay_ms)


class Lates:
    """A histogram of how late something was."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._most_ns: float | None = None

    def add(self, late_ns: float) -> None:
        self._counts[max(-_BUCKETS, min(_BUCKETS, round(late_ns / _BUCKET_NS)))] += 1
        if self._most_ns is None or late_ns > self._most_ns:
            self._most_ns = late_ns

    def late(self) -> Late:
        most_ms = None if self._most_ns is None else self._most_ns / 1e6
        return Late(self._counts.total(), self._quantile(0.5), self._quantile(0.99), most_ms)

    def _quantile(self, share: float) -> float | None:
        seen, count = 0, self._counts.total()
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= share * count:
                return bucket * _BUCKET_NS / 1e6
        return None


@dataclass
class Writing:
    """The log of a relay that runs."""

    connections: int = 0
    refused: int = 0
    messages: int = 0
    passing: deque[Passing] = field(default_factory=lambda: deque(maxlen=KEPT))
    late: Lates = field(default_factory=Lates)
    read: Lates = field(default_factory=Lates)
    woken: Lates = field(default_factory=Lates)
    polled_ns: float = 0.0

    def begin(self, message: Passing) -> Passing:
        self.messages += 1
        self.passing.append(message)
        return message

    def log(self, network: str, packets: Mapping[str, int], lost: Mapping[str, int]) -> RelayLog:
        bursts = tuple(message.burst() for message in self.passing)
        return RelayLog(network, self.connections, self.refused, packets, lost, self.late.late(),
                        self.read.late(), self.woken.late(), self.polled_ns / 1e6, bursts,
                        self.messages - len(bursts))
