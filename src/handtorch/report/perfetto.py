"""A run as a Perfetto trace, which ui.perfetto.dev and its trace processor open.

Protocol buffers written by hand: a field is its number and kind in one varint, then a varint, eight
bytes, or a length and so many bytes. The numbers below are those of Perfetto's published schema
(protos/perfetto/trace). Names are sent once and then meant by number, which makes the file less
than half of the JSON. Times go in as they are, CLOCK_MONOTONIC, on the trace's default clock."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from handtorch.record import Run
from handtorch.report.trace import Group, Level, Span, Trace, trace_of
from handtorch.report.whole import write_whole

_VARINT, _EIGHT_BYTES, _BYTES = 0, 1, 2
_TRACE_PACKET = 1
# TracePacket
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CLEARED, _NEEDS_STATE = 1, 2
# TrackDescriptor, ProcessDescriptor, CounterDescriptor
_UUID, _NAME, _PROCESS, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 3, 5, 8, 11, 12
_PID, _PROCESS_NAME = 1, 6
_UNIT, _SIZE_BYTES = 3, 3
_EXPLICIT = 3
# TrackEvent
_CATEGORY_IIDS, _ANNOTATIONS, _TYPE, _NAME_IID, _TRACK_UUID = 3, 4, 9, 10, 11
_COUNTER_VALUE, _DOUBLE_VALUE = 30, 44
_BEGIN, _END, _COUNTER_TYPE = 1, 2, 4
# InternedData: which list a name belongs to
_CATEGORIES, _EVENT_NAMES, _ARG_NAMES, _ARG_TEXTS = 1, 2, 3, 29
# DebugAnnotation
_ARG_NAME_IID, _ARG_UINT, _ARG_TEXT_IID = 1, 3, 17

_ONE_SEQUENCE = 1


def write_perfetto(run: Run, path: str | Path) -> Path:
    """The trace of `run` is at `path` afterwards."""
    return write_whole(Path(path), "trace", perfetto_packets(trace_of(run)))


def perfetto_packets(trace: Trace) -> Iterator[bytes]:
    """The packets in order, each with its head, so that they can simply be joined."""
    yield _packet(_field(_FLAGS, _CLEARED))
    names, parent = _Names(), 1
    for process, group in enumerate(trace.groups, 1):
        yield _packet(_track(parent, group.name, process=process))
        yield from _group(group, parent, names)
        parent += 1 + len(group.tracks) + len(group.levels)


def _group(group: Group, parent: int, names: _Names) -> Iterator[bytes]:
    uuid = parent
    for track in group.tracks:
        uuid += 1
        yield _packet(_track(uuid, track.name, parent=parent))
        for span in track.spans:
            yield from _slice(uuid, span, names)
    for level in group.levels:
        uuid += 1
        yield _packet(_track(uuid, level.name, parent=parent, level=level))
        for time_ns, value in level.points:
            yield _packet(_event(time_ns, _field(_TYPE, _COUNTER_TYPE) + _field(_TRACK_UUID, uuid)
                                 + _value(level, value)))


def _value(level: Level, value: float) -> bytes:
    if level.is_bytes:
        return _field(_COUNTER_VALUE, int(value))
    return _varint(_DOUBLE_VALUE << 3 | _EIGHT_BYTES) + struct.pack("<d", value)


def _slice(uuid: int, span: Span, names: _Names) -> Iterator[bytes]:
    """What begins and what ends; viewers pair them by track."""
    yield _packet(_event(span.start_ns, names.begins(uuid, span)) + names.fresh())
    yield _packet(_event(span.end_ns, _field(_TYPE, _END) + _field(_TRACK_UUID, uuid)))


class _Names:
    """Texts that were sent before, by list; `fresh` gives those not sent yet as a field."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._waiting = b""
        self._begins: dict[tuple[object, ...], bytes] = {}

    def begins(self, uuid: int, span: Span) -> bytes:
        """The event that begins `span`; steps repeat each other, so it is made once."""
        key = uuid, span.name, span.category, span.args
        if (known := self._begins.get(key)) is None:
            known = self._begins[key] = self._begin(uuid, span)
        return known

    def _begin(self, uuid: int, span: Span) -> bytes:
        body = (_field(_CATEGORY_IIDS, self.number(_CATEGORIES, span.category))
                + _field(_TYPE, _BEGIN) + _field(_NAME_IID, self.number(_EVENT_NAMES, span.name))
                + _field(_TRACK_UUID, uuid))
        for name, value in span.args:
            said = _field(_ARG_NAME_IID, self.number(_ARG_NAMES, name))
            if isinstance(value, int):
                said += _field(_ARG_UINT, value)
            else:
                said += _field(_ARG_TEXT_IID, self.number(_ARG_TEXTS, value))
            body += _message(_ANNOTATIONS, said)
        return body

    def number(self, of: int, text: str) -> int:
        known = self._numbers.get((of, text))
        if known is None:
            known = self._numbers[of, text] = len(self._numbers) + 1
            self._waiting += _message(of, _field(1, known) + _message(2, text.encode()))
        return known

    def fresh(self) -> bytes:
        made = _message(_INTERNED, self._waiting) if self._waiting else b""
        self._waiting = b""
        return made


def _track(uuid: int, name: str, *, parent: int = 0, process: int = 0,
           level: Level | None = None) -> bytes:
    body = _field(_UUID, uuid)
    if process:
        body += _message(_PROCESS, _field(_PID, process) + _message(_PROCESS_NAME, name.encode()))
        body += _field(_ORDERING, _EXPLICIT)
    else:
        body += (_message(_NAME, name.encode()) + _field(_PARENT, parent)
                 + _field(_RANK, uuid - parent))
    if level is not None:
        body += _message(_COUNTER, _field(_UNIT, _SIZE_BYTES) if level.is_bytes else b"")
    return _message(_DESCRIPTOR, body)


def _event(time_ns: int, body: bytes) -> bytes:
    return _field(_TIMESTAMP, time_ns) + _field(_FLAGS, _NEEDS_STATE) + _message(_TRACK_EVENT, body)


def _packet(body: bytes) -> bytes:
    return _message(_TRACE_PACKET, body + _OF_SEQUENCE)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first, the top bit says that more follow."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    assert value >= 0, f"{value} has no unsigned form"
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


_ONE_BYTE = [bytes((value,)) for value in range(128)]
_OF_SEQUENCE = _field(_SEQUENCE, _ONE_SEQUENCE)
