"""The application around every answer: a client that hangs up is no error of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handtorch.cloud.app import _hung_up

CLOSED = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"


class Request:
    """As uvicorn's, of a connection that fails."""

    def __init__(self, error: str) -> None:
        self.error, self.disconnected = error, False

    async def receive(self) -> Any:
        raise RuntimeError(self.error)

    async def send(self, message: Any) -> None:
        raise RuntimeError(self.error)


@pytest.mark.parametrize("sends", [True, False])
def test_who_hangs_up_has_disconnected(sends: bool) -> None:
    request = Request(CLOSED)
    receive, send = _hung_up(request.receive, request.send)
    if sends:
        asyncio.run(send({"type": "http.response.start"}))
    else:
        assert asyncio.run(receive()) == {"type": "http.disconnect"}
    assert request.disconnected


def test_other_errors_stay() -> None:
    request = Request("no such loop")
    receive, send = _hung_up(request.receive, request.send)
    for call in (receive(), send({})):
        with pytest.raises(RuntimeError, match="no such loop"):
            asyncio.run(call)
    assert not request.disconnected
