"""The file between a sampler and who reads it: a header, texts, and slots of one width.

One process writes; others may read at any time, also after the death of the writer. The file grows
by chunks, so it is the record as well as the way across: nothing has to be drained. Room is taken
by writing zeros before a chunk is mapped: a full disk is then an error at a known place, not a bus
error in the middle, and the header, which has its room from the start, tells of it. The reader
maps nothing, so that no change of the file can kill it.

A slot ends in its own number, which is written last; the header's count goes up only afterwards.
What a reader takes is the slots below that count whose number is right."""

from __future__ import annotations

import json
import mmap
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from handtorch.errors import BadFile
from handtorch.meters.signal import Value

MAGIC, VERSION = b"HTmeters", 1
# before_ns, after_ns, value, index of the signal, index of the reason (0: there is a value), number
SLOT = Struct("=qqdHHI")
CHUNK_SLOTS = 32768                     # 1 MiB
REASONS_BYTES = 16384
OTHER = "other reasons than there was room for"
RUNNING, ASKED, ORPHANED, TOO_LONG, FULL = 1, 2, 3, 4, 5        # how a sampler ended
RATES = ("fast", "medium", "slow")
FIELDS = ("pid", "started_ns", "state", "state_ns", "errno", "count", "lost", "reasons",
          "reasons_bytes", "heartbeat_ns", "cpu_ns", "stretch",
          *(f"{what}_{rate}" for rate in RATES for what in ("due", "missed")))

_HEAD = Struct("=8sIIIIII")             # magic, version, slots at, chunk, texts at, their length, 0
_FIELDS_AT, _REASONS_AT = 64, 4096
_TABLE_AT = _REASONS_AT + REASONS_BYTES
_AT = {name: i for i, name in enumerate(FIELDS)}
_COUNT, _HEARTBEAT = _AT["count"], _AT["heartbeat_ns"]
_LENGTH = Struct("=H")
_NAN = float("nan")
_TEXT_BYTES = 400                       # of one reason


class RingWriter:
    """Threads of one process may write; what one call of `add` gives stays together."""

    def __init__(self, path: Path, table: Mapping[str, Any], started_ns: int, *,
                 most_bytes: int = 1 << 29) -> None:
        """Makes the file, with its first chunk. Raises OSError where there is no room for that."""
        text = json.dumps(table).encode()
        grain = mmap.ALLOCATIONGRANULARITY
        self._slots_at = -(-(_TABLE_AT + len(text)) // grain) * grain
        self._chunk_bytes = -(-CHUNK_SLOTS * SLOT.size // grain) * grain
        self._most_chunks = max(1, (most_bytes - self._slots_at) // self._chunk_bytes)
        self._chunks, self._at, self._count, self._lost = 0, 0, 0, 0
        self._indices: dict[str, int] = {}
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            self._take_room(0, self._slots_at + self._chunk_bytes)
            self._head = mmap.mmap(self._fd, self._slots_at)
        except OSError:
            os.close(self._fd)
            raise
        self._head[_TABLE_AT:_TABLE_AT + len(text)] = text
        self._fields = memoryview(self._head)[_FIELDS_AT:_FIELDS_AT + 8 * len(FIELDS)].cast("q")
        self._map_next()
        self.put(pid=os.getpid(), started_ns=started_ns, state=RUNNING, state_ns=started_ns,
                 heartbeat_ns=started_ns, stretch=1)
        _HEAD.pack_into(self._head, 0, MAGIC, VERSION, self._slots_at, self._chunk_bytes, _TABLE_AT,
                        len(text), 0)

    @property
    def full(self) -> bool:
        return self._fields[_AT["state"]] == FULL

    def add(self, first: int, before_ns: int, after_ns: int, values: Sequence[Value]) -> None:
        """One reading of a sensor whose signals begin at `first`; lost and counted once full."""
        with self._lock:
            for i, value in enumerate(values, first):
                if self._at + SLOT.size > self._chunk_bytes and not self._grow(after_ns):
                    self._lost += first + len(values) - i
                    self._fields[_AT["lost"]] = self._lost
                    break
                number, reason = (value, 0) if type(value) is float else self._other(value)
                assert self._map is not None
                self._count += 1
                SLOT.pack_into(self._map, self._at, before_ns, after_ns, number, i, reason,
                               self._count & 0xFFFFFFFF)
                self._at += SLOT.size
            self._fields[_COUNT] = self._count
            self._fields[_HEARTBEAT] = after_ns

    def put(self, **fields: int) -> None:
        with self._lock:
            for name, value in fields.items():
                self._fields[_AT[name]] = value

    def end(self, state: int, now_ns: int) -> None:
        """Says how it ended; that it was full says more than that it was then stopped."""
        with self._lock:
            if self._fields[_AT["state"]] == RUNNING:
                self._fields[_AT["state_ns"]], self._fields[_AT["state"]] = now_ns, state

    def close(self) -> None:
        """Nothing may be written from here on."""
        with self._lock:
            self._fields.release()
            self._head.close()
            if self._map is not None:
                self._map.close()
            os.close(self._fd)

    def _grow(self, now_ns: int) -> bool:
        """True with room for another slot."""
        if self.full:
            return False
        error = 0
        if self._chunks < self._most_chunks:
            try:
                self._take_room(self._slots_at + self._chunks * self._chunk_bytes,
                                self._chunk_bytes)
                self._map_next()
                return True
            except OSError as e:
                error = e.errno or 0
        self._fields[_AT["errno"]], self._fields[_AT["state_ns"]] = error, now_ns
        self._fields[_AT["state"]] = FULL
        return False

    def _take_room(self, at: int, count: int) -> None:
        """Zeros are written, because not every file system can set blocks aside."""
        while count:
            done = os.pwrite(self._fd, bytes(min(count, 1 << 20)), at)
            at, count = at + done, count - done

    def _map_next(self) -> None:
        new = mmap.mmap(self._fd, self._chunk_bytes,
                        offset=self._slots_at + self._chunks * self._chunk_bytes)
        if self._map is not None:
            self._map.close()
        self._map, self._at = new, 0
        self._chunks += 1

    def _other(self, value: object) -> tuple[float, int]:
        """What is not a float: a whole number, a reason, or what no sensor may give."""
        if isinstance(value, int):
            return float(value), 0
        return _NAN, self._reason(value if isinstance(value, str) else f"not a number: {value!r}")

    def _reason(self, text: str) -> int:
        """Its index, from 1; texts without end get one index together, the last."""
        known = self._indices.get(text)
        if known is not None:
            return known
        at, last = self._fields[_AT["reasons_bytes"]], _LENGTH.size + len(OTHER)
        coded = text.encode("utf-8", "replace")[:_TEXT_BYTES]
        if at + _LENGTH.size + len(coded) + last > REASONS_BYTES:
            if OTHER in self._indices:
                return self._indices[OTHER]
            text, coded = OTHER, OTHER.encode()
        _LENGTH.pack_into(self._head, _REASONS_AT + at, len(coded))
        begin = _REASONS_AT + at + _LENGTH.size
        self._head[begin:begin + len(coded)] = coded
        self._indices[text] = len(self._indices) + 1
        self._fields[_AT["reasons_bytes"]] = at + _LENGTH.size + len(coded)
        self._fields[_AT["reasons"]] = len(self._indices)
        return self._indices[text]


@dataclass(frozen=True)
class Recorded:
    """What a file held when it was read. `reasons[0]` is empty: index 0 is no reason."""

    table: dict[str, Any]
    fields: dict[str, int]
    reasons: tuple[str, ...]
    slots: bytes                        # whole ones, `SLOT` after `SLOT`, in order of writing
    torn: int                           # counted in the header, but not there


def read(path: Path, *, slots: bool = True) -> Recorded:
    """Raises OSError, or BadFile for a file that is no such record."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(fd, _TABLE_AT, 0)
        if len(head) < _TABLE_AT or not head.startswith(MAGIC):
            raise BadFile(f"{path} is no record of meters", why="it does not begin like one")
        _, version, slots_at, chunk_bytes, table_at, length, _ = _HEAD.unpack_from(head)
        if version != VERSION:
            raise BadFile(f"{path} cannot be read",
                          why=f"it has version {version}, this reads version {VERSION}")
        values = memoryview(head)[_FIELDS_AT:_FIELDS_AT + 8 * len(FIELDS)].cast("q")
        fields = dict(zip(FIELDS, values, strict=True))
        try:
            table = json.loads(os.pread(fd, length, table_at))
        except ValueError as e:
            raise BadFile(f"{path} cannot be read", why=f"its table of signals: {e}") from e
        data = _whole(fd, slots_at, chunk_bytes, fields["count"]) if slots else b""
    finally:
        os.close(fd)
    torn = fields["count"] - len(data) // SLOT.size if slots else 0
    return Recorded(table, fields, ("", *_texts(head, fields["reasons"])), data, torn)


def _texts(head: bytes, count: int) -> list[str]:
    texts, at = [], _REASONS_AT
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(head, at)
        at += _LENGTH.size
        texts.append(head[at:at + length].decode("utf-8", "replace"))
        at += length
    return texts


def _whole(fd: int, at: int, chunk_bytes: int, count: int) -> bytes:
    """The slots before the first that is not there or not whole."""
    each = chunk_bytes // SLOT.size * SLOT.size
    parts, left = [], count * SLOT.size
    while left > 0:
        part = os.pread(fd, min(left, each), at)
        parts.append(part)
        if len(part) < min(left, each):
            break
        at, left = at + chunk_bytes, left - each
    data = b"".join(parts)
    data = data[:len(data) // SLOT.size * SLOT.size]
    width = SLOT.size // 4
    numbers = memoryview(data).cast("I")[width - 1::width].tolist()
    good = len(numbers)
    if numbers != list(range(1, good + 1)):
        good = next(i for i, n in enumerate(numbers) if n != i + 1)
    return data[:good * SLOT.size]
