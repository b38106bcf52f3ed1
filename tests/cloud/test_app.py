"""The application around every answer: a client that hangs up is no error of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handtorch.cloud.app import _hung_up

CLOSED = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"


def _both(error: str) -> Any:
    async def fails(*_: Any) -> Any:
        raise RuntimeError(error)
    return _hung_up(fails, fails)


def test_who_hangs_up_has_disconnected() -> None:
    receive, send = _both(CLOSED)
    assert asyncio.run(receive()) == {"type": "http.disconnect"}
    assert asyncio.run(send({"type": "http.response.start"})) is None


def test_other_errors_stay() -> None:
    for call, given in zip(_both("no such loop"), ((), ({},)), strict=True):
        with pytest.raises(RuntimeError, match="no such loop"):
            asyncio.run(call(*given))
