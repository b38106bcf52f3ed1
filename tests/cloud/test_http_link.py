"""A connection that hangs while it is made: it has little time, and can be cut."""

from __future__ import annotations

import http.server
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from handtorch.cloud.client import Connection
from handtorch.cloud.http_link import HttpLink
from handtorch.errors import HandTorchError

FULL = pytest.mark.skipif(sys.platform != "linux", reason="a full backlog drops packets on Linux")


@pytest.fixture
def hanging() -> Iterator[int]:
    """A port whose backlog is full: whoever connects waits."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = int(listening.getsockname()[1])
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        time.sleep(0.05)
        yield port


@FULL
def test_connecting_has_a_limit_of_its_own(hanging: int) -> None:
    link = HttpLink("127.0.0.1", hanging, timeout_s=60.0, connect_s=0.2)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        link.request("GET", "/")
    assert 0.2 <= time.monotonic() - begin < 15 and link.sock is None


@FULL
def test_a_connection_is_cut_while_it_is_made(hanging: int) -> None:
    link = HttpLink("127.0.0.1", hanging, timeout_s=60.0, connect_s=60.0)
    cutting = threading.Timer(0.2, link.cut)
    cutting.start()
    begin = time.monotonic()
    with pytest.raises(ConnectionAbortedError, match="cut while it connected"):
        link.request("GET", "/")
    cutting.join()
    assert time.monotonic() - begin < 15


@FULL
def test_a_client_says_that_nobody_took_its_connection(hanging: int) -> None:
    link = Connection(f"http://127.0.0.1:{hanging}")
    cutting = threading.Timer(0.2, link.cut)
    cutting.start()
    with pytest.raises(HandTorchError, match=r"no answer from http://127\.0\.0\.1"):
        link.get("/v2")
    cutting.join()
    link.close()


def test_a_host_with_no_server_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
    with pytest.raises(ConnectionRefusedError):
        HttpLink("127.0.0.1", port, timeout_s=60.0).request("GET", "/")


def test_the_address_that_answers_is_taken_and_a_cut_one_connects_anew() -> None:
    """localhost may be ::1 first, where nobody listens."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler
                                         ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        link = HttpLink("localhost", server.server_port, timeout_s=30.0)
        for _ in range(2):
            link.request("GET", "/")
            assert link.getresponse().status == 501         # it knows no GET
            assert link.sock is None or link.sock.gettimeout() == 30.0
            link.cut()
            link.close()
        server.shutdown()
        thread.join()


def test_the_port_of_a_url_without_one() -> None:
    assert HttpLink("127.0.0.1", None, 1.0).port == 80
    assert HttpLink("127.0.0.1", None, 1.0, ssl.create_default_context()).port == 443
