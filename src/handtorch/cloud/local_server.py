"""A server of our own on this machine, for as long as it is needed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType

from handtorch import knobs
from handtorch.errors import HandTorchError

START_S = 120.0
_END_S = 10.0
# 1 is PR_SET_PDEATHSIG: where we are killed, it ends too.
_CODE = ("import ctypes, sys; ctypes.CDLL(None).prctl(1, 15); "
         "from handtorch.cli.main import entry; raise SystemExit(entry())")


class LocalServer:
    """`handtorch serve` with these options on 127.0.0.1; gone when closed.

    Returns at once; `url` waits until every model is loaded, so that several start together."""

    def __init__(self, options: Sequence[str]) -> None:
        self.began_ns = time.perf_counter_ns()
        self._said = tempfile.TemporaryFile()   # noqa: SIM115  as long as the server
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, "serve", "--json", "--port", "0", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said,
            env=knobs.environment_for_child())
        self._url = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        if not self._url:
            assert self._process.stdout is not None
            text = read_line(self._process.stdout.fileno(), START_S)
            if not text.startswith(b"{") or b'"url"' not in text:
                raise HandTorchError("the server did not start", why=self._last_words(text),
                                     fix="`handtorch serve` with the same options tells more")
            self._url = str(json.loads(text)["url"])
        return self._url

    def _last_words(self, text: bytes) -> str:
        self.close()
        self._said.seek(0)
        said = (text + self._said.read()).decode("utf-8", "replace").strip()
        return said[-500:] or f"it said nothing within {START_S:g} s"

    def close(self) -> None:
        """It has ended, if need be by force. Twice is once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def read_line(fd: int, seconds: float) -> bytes:
    """One line, or what came of it in that time."""
    until, found = time.monotonic() + seconds, b""
    while not found.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        got = os.read(fd, 1 << 16)
        if not got:
            break
        found += got
    return found
