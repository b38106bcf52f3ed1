"""Connections of clients that are slow, silent or hostile: uvicorn's protocol with limits of ours.

uvicorn times nothing before a request's head is whole, reads heads of any length, takes any number
of requests before it has answered the first (25 MB of them became 1.6 GB here), and closes a
connection while a client is still sending, which then sees a reset in place of its answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from handtorch.cloud.limits import Limits

HEAD_BYTES = 64 * 1024
LINGER_S = 2.0
PIPELINED = 16              # requests that wait behind one another on a connection


class _Transport:
    """A transport that closes in good order: what was written arrives, or time runs out.

    While `unread` a client is still sending: it gets the answer and the end, and what it goes on
    to send is thrown away, for it would not look at an answer before it has sent all."""

    def __init__(self, transport: asyncio.Transport, limits: Limits) -> None:
        self._transport, self._limits = transport, limits
        self._timer: asyncio.TimerHandle | None = None
        self.unread = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        lingers = self.unread
        self._timer = asyncio.get_running_loop().call_later(
            LINGER_S if lingers else self._limits.answer_s, self._transport.abort)
        if not lingers:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def lost(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Guard(HttpToolsProtocol):
    """One connection; `limits` is set by whoever starts the server."""

    limits: ClassVar[Limits] = Limits()
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True
    _began_ns: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:    # type: ignore[override]
        self._own = _Transport(transport, self.limits)
        super().connection_made(cast(asyncio.Transport, self._own))
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._own.lost()
        self._stop_waiting()
        if self._read_timer is not None:
            self._read_timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.limits.answer_s, self._own.abort)

    def resume_writing(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._own.is_closing():
            return                      # nobody is going to answer it
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._in_head else 0
        if self._head_bytes > HEAD_BYTES:
            self._say(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            self._own.abort()
            raise httptools.HttpParserError("too many requests at once")    # parses no further
        # One that comes while another is answered waits for that, which is no part of its coming.
        waits = self.cycle is not None and not self.cycle.response_complete
        self._began_ns = None if waits else time.perf_counter_ns()
        super().on_message_begin()
        self._in_head = True
        self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        self._own.unread = True
        self.scope["extensions"] = {"handtorch": {"gone": self._own.is_closing,
                                                  "began_ns": self._began_ns}}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._own.unread = False
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._own.unread:            # answered before its body was read: that has an end too
            self._await_head()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self.limits.head_s, self._say, b"408 Request Timeout")

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _say(self, status: bytes) -> None:
        """An answer to what never became a request, unless an earlier one is still due."""
        self._head_timer = None
        if self._own.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False       # closed after that
            return
        self._own.write(b"HTTP/1.1 " + status +
                        b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self._own.unread = True
        self._own.close()
