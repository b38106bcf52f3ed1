"""A place in a process of its own, on cores of its own: what runs there disturbs nobody else.

    with Apart("handtorch.offload.har:torch_har", {"batch": 32}, cores=(0,)) as cpu:
        y = cpu(x)

The maker is named, not given, because it is called in the child: after the child has been put on
its cores, and so before a driver or a thread pool counts them. OpenCL runtimes that ignore parts of
a device (Intel's) are limited in this way, and torch's threads are.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from handtorch import knobs
from handtorch.errors import BadInput, DeviceError
from handtorch.meters.threads import ProcessClock


class Apart:
    """Calls go to the child and wait for its answer; closing ends it.

    An error there is a DeviceError here, with the child's own words."""

    def __init__(self, maker: str, given: Mapping[str, Any], *,
                 cores: Sequence[int] | None = None) -> None:
        allowed = os.sched_getaffinity(0)
        if cores is not None and (not cores or set(cores) - allowed):
            raise BadInput(f"cores {list(cores)}", why=f"this process may use {sorted(allowed)}")
        self.maker, self.cores = maker, None if cores is None else tuple(cores)
        ours, theirs = socket.socketpair()
        asked = {"maker": maker, "given": dict(given), "cores": self.cores}
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "handtorch.offload.apart", str(theirs.fileno()),
                 json.dumps(asked)],
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                env=knobs.environment_for_child())
        self._link = Connection(ours.detach())
        self._clock = ProcessClock(self._child.pid)
        self._is_ready = False

    def ready(self) -> None:
        """Wait until the child has made its callable. Several children get ready together if each
        is waited for only once all are started."""
        if not self._is_ready:
            self._answer()
            self._is_ready = True

    def __call__(self, *batch: Any) -> Any:
        """What the child's callable gives."""
        self.ready()
        self._link.send(batch)
        return self._answer()

    def _answer(self) -> Any:
        try:
            kind, value = self._link.recv()
        except EOFError:
            self._child.wait()
            raise DeviceError(f"the process of {self.maker}", why="it has ended; standard error "
                              "says why") from None
        if kind == "error":
            raise DeviceError(f"the process of {self.maker}", why=value)
        return value

    def used_s(self) -> float:
        """CPU time of the child by now, all its threads."""
        (value,) = self._clock.read()
        if isinstance(value, str):
            raise DeviceError(f"the process of {self.maker}", why=value)
        return value

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def close(self) -> None:
        """The child runs no more afterwards."""
        self._link.close()              # it ends by itself when nobody listens any more
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _made(asked: Mapping[str, Any]) -> Callable[..., Any]:
    module, _, name = asked["maker"].partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), name)(**asked["given"])
    return made


def serve(link: Connection, asked: Mapping[str, Any]) -> None:
    """Make the callable and answer calls until nobody is there any more."""
    try:
        call = _made(asked)
        link.send(("ready", None))
        while True:
            link.send(("result", call(*link.recv())))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except BaseException as e:          # whatever it is, the parent must hear of it
        traceback.print_exc()
        link.send(("error", f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"))
        raise SystemExit(1) from e


def main(number: str, text: str) -> None:
    asked = json.loads(text)
    if asked["cores"] is not None:
        os.sched_setaffinity(0, asked["cores"])
    serve(Connection(int(number)), asked)


if __name__ == "__main__":
    main(*sys.argv[1:])
