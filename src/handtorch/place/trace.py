"""When a link could carry something: Mahimahi's trace files, and traces made of stated rates.

A line of such a file is a millisecond in which one packet of 1500 bytes could leave; several lines
may name the same one. The last line is where the trace begins again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handtorch.errors import BadInput, StorageError
from handtorch.place.network import Trace

PACKET_BYTES = 1500
_MOST_BYTES = 64 << 20
_MOST_SECONDS = 3600
_FIX = "one whole number of milliseconds to a line, none less than the one before"


def read_trace(path: Path) -> Trace:
    """The trace in Mahimahi's file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StorageError(f"trace {path}", why=error.strerror or str(error)) from error
    if len(text) > _MOST_BYTES:
        raise BadInput(f"trace {path}", why=f"more than {_MOST_BYTES:,} bytes", fix="a shorter one")
    at_ms: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word.isdigit() or len(word) > 12:
            raise BadInput(f"trace {path}", why=f"line {number} is {word[:40]!r}", fix=_FIX)
        at = int(word)
        if at_ms and at < at_ms[-1]:
            raise BadInput(f"trace {path}", why=f"line {number} says {at} after {at_ms[-1]}",
                           fix=_FIX)
        at_ms.append(at)
    if not at_ms or at_ms[-1] == 0:
        raise BadInput(f"trace {path}", why="it has no length", fix=_FIX)
    return Trace(tuple(at_ms))


def stated_trace(mbps_by_second: Sequence[float]) -> Trace:
    """These rates one after the other, a second each, as evenly as milliseconds let them.

    The last millisecond always has a packet: a trace ends with its last one."""
    if not 0 < len(mbps_by_second) <= _MOST_SECONDS or not any(mbps_by_second):
        raise BadInput(f"a trace of {len(mbps_by_second)} seconds",
                       why="nothing could ever leave, or there are more than an hour of them")
    at_ms, owed_bytes = [], 0.0
    for second, mbps in enumerate(mbps_by_second):
        for ms in range(1000 * second + 1, 1000 * second + 1001):
            owed_bytes += mbps * 1e6 / 8 / 1000
            while owed_bytes >= PACKET_BYTES:
                at_ms.append(ms)
                owed_bytes -= PACKET_BYTES
    end_ms = 1000 * len(mbps_by_second)
    if not at_ms or at_ms[-1] != end_ms:
        at_ms.append(end_ms)
    return Trace(tuple(at_ms), PACKET_BYTES)
