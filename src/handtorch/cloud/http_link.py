"""HTTP/1.1 over a connection that can be cut at any time, also while it is being made.

Python's own has one limit for connecting and for answers: a minute for a host that drops packets,
and for each of its addresses. Here all of connecting has a few seconds."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from contextlib import suppress

CONNECT_S = 5.0


class HttpLink(http.client.HTTPConnection):
    """`timeout_s` is for each wait for bytes, once it is connected."""

    def __init__(self, host: str, port: int | None, timeout_s: float,
                 tls: ssl.SSLContext | None = None, connect_s: float = CONNECT_S) -> None:
        if tls is not None:
            self.default_port = http.client.HTTPS_PORT
        super().__init__(host, port, timeout=timeout_s)
        self._timeout_s, self._tls, self._connect_s = timeout_s, tls, connect_s
        self._opening: socket.socket | None = None
        self._is_cut = False

    def connect(self) -> None:
        """To the first of the host's addresses that answers, within the time for all of them."""
        self._is_cut = False
        until_s, error = time.monotonic() + self._connect_s, OSError("no address")
        for family, kind, number, _, at in socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM):
            left_s = until_s - time.monotonic()
            if self._is_cut or left_s <= 0:
                break
            sock = socket.socket(family, kind, number)
            try:
                self.sock = self._opened(sock, at, left_s)
                return
            except OSError as e:
                sock.close()
                error = e
            finally:
                self._opening = None
        raise ConnectionAbortedError("cut while it connected") if self._is_cut else error

    def _opened(self, sock: socket.socket, at: tuple[object, ...], left_s: float) -> socket.socket:
        self._opening = sock
        sock.settimeout(left_s)
        sock.connect(at)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            sock = self._opening = self._tls.wrap_socket(sock, server_hostname=self.host)
        if self._is_cut:                    # some systems call a socket connected that was cut
            sock.close()
            raise ConnectionAbortedError("cut while it connected")
        sock.settimeout(self._timeout_s)
        return sock

    def cut(self) -> None:
        """Whoever waits for it, in another thread, fails at once. The next request connects anew
        after a `close`."""
        self._is_cut = True
        sock = self.sock or self._opening
        if sock is not None:
            with suppress(OSError):         # it ended by itself meanwhile
                sock.shutdown(socket.SHUT_RDWR)
