"""A server of its own for a test, in a process of its own, on this machine alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch import knobs
from handtorch.cloud.protocol import (
    HEAD_LENGTH,
    Message,
    Request,
    Tensor,
    Wanted,
    encode_request,
)

START_S = 120


@dataclass
class Running:
    """`said` is what it wrote besides its address, once it has ended."""

    process: subprocess.Popen[str]
    url: str
    said: str = ""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.partition("://")[2].rpartition(":")
        return host, int(port)

    def end(self) -> int:
        """SIGTERM, and the code it ends with."""
        self.process.send_signal(signal.SIGTERM)
        self.said = self.process.communicate(timeout=60)[1]
        return self.process.returncode

    def resident_bytes(self) -> int:
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(*argv: str, environment: Mapping[str, str] | None = None,
            script: str = "") -> Iterator[Running]:
    """`handtorch serve` with these options; `script` runs in its place, given the same options."""
    command = ["-c", script] if script else ["-m", "handtorch"]
    process = subprocess.Popen(
        [sys.executable, *command, "serve", "--json", *argv], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**knobs.environment_for_child(), **(environment or {})})
    watch = threading.Timer(START_S, process.kill)      # a server that hangs fails, and is gone
    watch.start()
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        watch.cancel()
        assert line, process.stderr.read()
        yield Running(process, json.loads(line)["url"])
    finally:
        watch.cancel()
        if process.poll() is None:
            process.kill()
            process.communicate()


def tensors(*arrays: NDArray[Any], name: str = "x", wanted: tuple[Wanted, ...] = (),
            binary: bool = True) -> Message:
    return encode_request(Request(tuple(Tensor.of(name, a) for a in arrays), wanted,
                                  binary=binary))


def save_seeing(path: Path) -> None:
    """A tiny net for pictures of 8 x 8, with random weights, as a file."""
    import torch

    import handtorch as ht
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(4 * 36, 7))
    model = ht.inference(net, example=(torch.zeros(2, 3, 8, 8),), device="ref")
    model.save(path)
    model.close()


def digits(rows: int = 1, seed: int = 0) -> NDArray[Any]:
    """Input of the model that ships."""
    return np.random.default_rng(seed).random((rows, 64), dtype="f4")


def raw(message: Message, path: str = "/v2/models/digits/infer", *, host: str = "t",
        headers: Mapping[str, str] | None = None) -> bytes:
    """The request as it travels."""
    lines = {"Host": host, "Content-Length": str(len(message.body)), **(headers or {})}
    if message.head_bytes is not None:
        lines[HEAD_LENGTH] = str(message.head_bytes)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + message.body


def heard(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One answer: status, headers in lower case, body; status 0 if the connection ends first."""
    data = b""
    while b"\r\n\r\n" not in data:
        got = sock.recv(65536)
        if not got:
            return 0, {}, data
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        got = sock.recv(65536)
        if not got:
            return 0, headers, body
        body += got
    return int(first.split()[1]), headers, body


def asked(running: Running, request: bytes, timeout_s: float = 60) -> tuple[
        int, dict[str, str], bytes]:
    """The answer on a connection of its own."""
    with socket.create_connection(running.address, timeout=timeout_s) as sock:
        sock.sendall(request)
        return heard(sock)


def error(body: bytes) -> str:
    return str(json.loads(body)["error"])
