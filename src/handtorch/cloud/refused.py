"""A request that is not answered with a result: its HTTP status and why."""

from __future__ import annotations

from collections.abc import Mapping

from handtorch.errors import HandTorchError


class Refused(HandTorchError):
    """Ends a request with this status; `close` where the rest of its body must not be read."""

    def __init__(self, status: int, what: str, *, why: str = "", fix: str = "",
                 headers: Mapping[str, str] | None = None, close: bool = False) -> None:
        self.status, self.headers = status, {**(headers or {})}
        if close:
            self.headers["Connection"] = "close"
        super().__init__(what, why=why, fix=fix)


class ClientGone(Exception):
    """The client has left: there is nobody to answer."""
