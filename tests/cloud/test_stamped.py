"""The kernel's stamps of a stream: when bytes came, not when somebody looked."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from handtorch.cloud import stamped
from handtorch.cloud.stamped import received, stamp


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        with near, far:
            yield near, far


@pytest.mark.skipif(sys.platform != "linux", reason="stamps are Linux's")
def test_bytes_are_stamped_when_they_come(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    stamp(far)
    for _ in range(2):                              # the first may go before stamping has begun
        begin_ns = time.monotonic_ns()
        near.sendall(b"bytes")
        sent_ns = time.monotonic_ns()
        time.sleep(0.05)
        data, came_ns = received(far, 100)
    assert data == b"bytes" and came_ns is not None
    assert begin_ns - 2e6 <= came_ns <= sent_ns + 20e6      # 50 ms later it was read
    near.close()
    assert received(far, 100)[0] == b""


def test_where_there_are_no_stamps_nobody_knows(ends: tuple[socket.socket, socket.socket],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = ends
    monkeypatch.setattr(stamped, "_HAS_STAMPS", False)
    stamp(far)
    near.sendall(b"bytes")
    assert received(far, 100) == (b"bytes", None)
