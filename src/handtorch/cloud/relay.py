"""A network between a client and a server, for as long as it is needed.

    with Relay("127.0.0.1", 8000, read_network("lte")) as relay:
        InCloud(relay.url, "squeezenet")(picture)
        print(relay.log().last("up"))

It runs in a process of its own: a client that computes keeps Python's lock for milliseconds, and a
thread beside it would be as late (docs/adr/0027 has the figures)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from types import TracebackType
from typing import Any

from handtorch import knobs
from handtorch.cloud.addresses import in_url
from handtorch.cloud.local_server import read_line
from handtorch.cloud.relay_child import settings_to_line
from handtorch.cloud.relay_log import RelayLog, log_of
from handtorch.cloud.relaying import RelaySettings, check_network
from handtorch.errors import HandTorchError
from handtorch.place.network import Network

_START_S = 30.0                 # a machine under load imports slowly
_ANSWER_S = 30.0
_END_S = 5.0


class Relay:
    """Listens when made. All that goes through has the network's rate, delay and faults."""

    def __init__(self, target_host: str, target_port: int, network: Network, *, seed: int = 0,
                 host: str = "127.0.0.1", port: int = 0) -> None:
        check_network(network)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "handtorch.cloud.relay_child"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=knobs.environment_for_child())
        try:
            told = self._asked(settings_to_line(RelaySettings(
                target_host, target_port, network, host, port, seed)), _START_S)
        except HandTorchError:
            self.close()
            raise
        self.network, self.host, self.port = network, host, int(told["port"])

    @property
    def url(self) -> str:
        return f"http://{in_url(self.host)}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> RelayLog:
        """What has passed so far."""
        return log_of(self._asked(b"\n", _ANSWER_S))

    def _asked(self, line: bytes, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = read_line(self._process.stdout.fileno(), seconds)
        except (BrokenPipeError, ValueError):
            answer = b""
        if not answer.endswith(b"\n"):
            raise HandTorchError("the relay does not answer", why="its process has ended, or is "
                                 f"kept from running for {seconds:g} s")
        told: dict[str, Any] = json.loads(answer)
        if "error" in told:
            raise HandTorchError(**told["error"])
        return told

    def close(self) -> None:
        """It has ended, and every connection through it. Twice is once."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):      # it may have ended before
            self._process.stdin.close()                 # what it ends with
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
