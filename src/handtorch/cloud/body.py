"""The body of a request, counted while it comes: never more than the limits in memory.

What comes too slowly, is too long or unpacks to too much ends with the first byte that shows it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from handtorch.cloud.limits import Limits
from handtorch.cloud.refused import ClientGone, Refused

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
# zlib's word for what it is to expect: "deflate" in HTTP has zlib's own frame.
_WINDOW = {"gzip": 31, "deflate": 15}


class Budget:
    """Bytes that all requests together hold; a request gives its own back when it ends."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.used_bytes = most_bytes, 0

    def take(self, count: int) -> None:
        if self.used_bytes + count > self.most_bytes:
            raise Refused(503, "the server holds as many requests as it can",
                          why=f"{self.used_bytes} B of {self.most_bytes} B",
                          headers={"Retry-After": "1"}, close=True)
        self.used_bytes += count

    def give_back(self, count: int) -> None:
        self.used_bytes -= count


class Held:
    """What one request holds of the budget: `with` gives all of it back."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._bytes = budget, 0

    def take(self, count: int) -> None:
        self._budget.take(count)
        self._bytes += count

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.give_back(self._bytes)


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers in lower case; the last of a name counts."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}


async def read_body(headers: Mapping[str, str], receive: Receive, limits: Limits, held: Held
                    ) -> bytes:
    """The whole body, unpacked if it was packed; at most `body_bytes` either way."""
    _check_length(headers, limits)
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing != "identity" and packing not in _WINDOW:
        raise Refused(415, f"content encoding {packing[:40]!r}", why="there are gzip, deflate and "
                      "identity", close=True)
    unpack = _Unpacking(packing, limits.body_bytes) if packing in _WINDOW else None
    loop = asyncio.get_running_loop()
    begin, came, parts = loop.time(), 0, []
    try:
        async with asyncio.timeout_at(begin + limits.first_byte_s) as clock:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                chunk, more = message.get("body", b""), message.get("more_body", False)
                came += len(chunk)
                if came > limits.body_bytes:
                    raise too_long(limits.body_bytes)
                chunk = unpack(chunk) if unpack is not None else chunk
                held.take(len(chunk))
                parts.append(chunk)
                if came:
                    clock.reschedule(begin + min(limits.body_s, limits.first_byte_s
                                                 + came / limits.least_bytes_per_s))
    except TimeoutError as e:
        raise Refused(408, "the body comes too slowly",
                      why=f"{came} B in {loop.time() - begin:.1f} s", close=True) from e
    if unpack is not None:
        unpack.end()
    return b"".join(parts) if len(parts) != 1 else parts[0]


def too_long(most: int, how: str = "") -> Refused:
    return Refused(413, f"the body is longer than {most} B{how}", close=True)


def _check_length(headers: Mapping[str, str], limits: Limits) -> None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 20):
        raise Refused(400, "the content length is no number", close=True)
    if int(length) > limits.body_bytes:
        raise too_long(limits.body_bytes)


class _Unpacking:
    """A packed body; never unpacks more than one byte beyond the limit."""

    def __init__(self, packing: str, most_bytes: int) -> None:
        self._stream = zlib.decompressobj(_WINDOW[packing])
        self._left, self._most = most_bytes, most_bytes

    def __call__(self, chunk: bytes) -> bytes:
        try:
            out = self._stream.decompress(chunk, self._left + 1)
        except zlib.error as e:
            raise Refused(400, "the body cannot be unpacked", why=str(e), close=True) from e
        self._left -= len(out)
        if self._left < 0 or self._stream.unconsumed_tail:
            raise too_long(self._most, " when unpacked")
        if self._stream.unused_data:
            raise Refused(400, "the body cannot be unpacked", why="more follows its end",
                          close=True)
        return out

    def end(self) -> None:
        if not self._stream.eof:
            raise Refused(400, "the body cannot be unpacked", why="it is cut short")
