"""A picture here or there, a thread for each: who is late is overtaken, the first answer counts.

A model belongs to one thread and a connection to one request, so each place does one thing at a
time. A run on the device cannot be called off; a server is, by cutting its connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Protocol

from handtorch.cloud.recognised import Recognised
from handtorch.errors import HandTorchError
from handtorch.place.decide import shown_s

_END_S = 6.0                # for a connection that is being made: it has 5 (http_link)


class Here(Protocol):
    def load(self) -> None: ...

    def close(self) -> None: ...

    def __call__(self, path: Path) -> Recognised: ...


class There(Protocol):
    def rtt_ms(self, times: int = 5) -> float: ...

    def cut(self) -> None: ...

    def close(self) -> None: ...

    def __call__(self, path: Path, sending: str | None = None) -> Recognised: ...


@dataclass(frozen=True)
class Outcome:
    """`local` is the way on the device that gave the answer, None where the server did; `fault` is
    what was wrong with the server, and `said` what has to be told."""

    found: Recognised
    local: str | None
    said: str = ""
    fault: HandTorchError | None = None


class TwoPlaces:
    """`here` are ways on the device by name; `connect` makes the connection when it is needed."""

    def __init__(self, here: Mapping[str, Here], connect: Callable[[], There] | None) -> None:
        self.ways, self._connect = dict(here), connect
        self._server: There | None = None
        self._closed = False
        self._device = ThreadPoolExecutor(1, "device")
        self._cloud = ThreadPoolExecutor(1, "cloud")

    @property
    def has_server(self) -> bool:
        return self._connect is not None

    def load(self) -> None:
        """Every model of the device is in memory."""
        for one in self.ways.values():
            self._device.submit(one.load).result()

    def close(self) -> None:
        """Nothing is in memory or open any more. A connection that is being made, and cannot be
        cut yet, is given some seconds; one that hangs for longer is closed when it is there.
        Twice is once."""
        if self._closed:
            return
        self._closed = True
        if self._server is not None:
            self._server.cut()
        self._device.shutdown(wait=True, cancel_futures=True)
        wait((self._reset(),), timeout=_END_S)
        self._cloud.shutdown(wait=False, cancel_futures=True)
        for one in self.ways.values():
            one.close()

    def rtt_s(self, times: int, within_s: float) -> float | HandTorchError:
        """The least of so many round trips, or what is wrong."""
        asked = self._cloud.submit(lambda: self._open().rtt_ms(times) / 1e3)
        wait((asked,), timeout=within_s)
        if not asked.done():
            return self._given_up(asked, within_s)
        return self._fault(asked) or asked.result()

    def here(self, name: str, path: Path) -> Outcome:
        return Outcome(self._device.submit(self.ways[name], path).result(), name)

    def there(self, sending: str, path: Path, patience_s: float, other: str | None) -> Outcome:
        """The server's answer; `other`, a way on the device, begins too if that is late or fails.
        """
        asked = self._cloud.submit(lambda: self._open()(path, sending))
        wait((asked,), timeout=patience_s if other is not None and patience_s < inf else None)
        if other is None or (asked.done() and self._fault(asked) is None):
            return Outcome(asked.result(), None)
        if asked.done():
            fault = self._fault(asked)
            return Outcome(self.here(other, path).found, other,
                           f"the server failed ({first_line(fault)}); {other} did it", fault)
        return self._raced(asked, path, patience_s, other)

    def _raced(self, asked: Future[Recognised], path: Path, patience_s: float, other: str
               ) -> Outcome:
        late = f"the server had not answered after {shown_s(patience_s)}; {other} was started too"
        local = self._device.submit(self.ways[other], path)
        wait((asked, local), return_when=FIRST_COMPLETED)
        if not asked.done():
            found = local.result()
            return Outcome(found, other, f"{late}, and was first",
                           self._given_up(asked, patience_s))
        fault = self._fault(asked)
        if fault is None:
            return Outcome(asked.result(), None, f"{late}, and the server was first after all")
        return Outcome(local.result(), other, f"{late}, the server failed ({first_line(fault)})",
                       fault)

    def _open(self) -> There:
        """In the thread of the cloud."""
        assert self._connect is not None
        self._server = self._server or self._connect()
        if self._closed:
            self._server.close()
            raise HandTorchError("closed", why="while the connection was made")
        return self._server

    def _fault(self, asked: Future[Any]) -> HandTorchError | None:
        """What came instead of an answer. A bug of ours is not the server's fault."""
        error = asked.exception()
        if error is None:
            return None
        if not isinstance(error, HandTorchError):
            raise error
        self._reset()
        return error

    def _given_up(self, asked: Future[Any], after_s: float) -> HandTorchError:
        """Nothing of it is sent later either."""
        if not asked.cancel() and self._server is not None:
            self._server.cut()
        self._reset()
        return HandTorchError("no answer", why=f"within {shown_s(after_s)}")

    def _reset(self) -> Future[None]:
        """The next request connects anew; after whatever that thread still waits for."""
        return self._cloud.submit(lambda: None if self._server is None else self._server.close())


def first_line(error: BaseException | None) -> str:
    return str(error).splitlines()[0]
