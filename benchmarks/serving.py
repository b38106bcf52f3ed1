"""Our server against LitServe and Ray Serve with the identical engine: answers a second, p50, p99.

    python benchmarks/serving.py [--model SqueezeNet1_1:imagenet] [--peers PYTHON] [--json]

Every server is a process of its own around `handtorch.cloud.engines` (torch on the CPU), with the
same batches (8 rows, 2 ms). The same client, in this process, asks each of them in turn, over 1 and
8 connections: blocks of a few seconds, several rounds, each round begun by another server. A ratio
is the median over the rounds of ours to theirs within the round, with the least and the largest.
`--peers` names a Python that has litserve or ray; a peer that it has not is left out, and said."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from handtorch import knobs
from handtorch.cloud.engines import CPU, Port, ZooModel, open_engine
from handtorch.cloud.protocol import HEAD_LENGTH, Request, Tensor, encode_request

OURS, PEERS = "handtorch", ("litserve", "ray")
MODULES = {"litserve": "litserve", "ray": "ray.serve"}
ROWS, WAIT_S, START_S = 8, 0.002, 120.0
# As our engine has it where torch is not loaded before; so that all have it, whoever loads torch.
ENVIRONMENT = {**knobs.environment_for_child(), "OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True)
class Side:
    name: str
    port: int
    request: bytes
    pid: int


@dataclass(frozen=True)
class Block:
    """What one server did in one block."""

    per_s: float
    p50_ms: float
    p99_ms: float
    answers: int


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def http(path: str, body: bytes, kind: str, more: str = "") -> bytes:
    return (f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {kind}\r\n{more}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def request_for(side: str, port: Port, name: str) -> bytes:
    """One row, as this server takes it."""
    x = np.random.default_rng(0).standard_normal((1, *port.shape)).astype(port.dtype)
    if side == OURS:
        message = encode_request(Request((Tensor.of(port.name, x),)))
        return http(f"/v2/models/{name}/infer", message.body, "application/octet-stream",
                    f"{HEAD_LENGTH}: {message.head_bytes}\r\n")
    if side == "ray":
        return http("/infer", x.tobytes(), "application/octet-stream")
    mark = "b0undary"
    body = (f'--{mark}\r\nContent-Disposition: form-data; name="x"; filename="x"\r\n\r\n'.encode()
            + x.tobytes() + f"\r\n--{mark}--\r\n".encode())
    return http("/infer", body, f"multipart/form-data; boundary={mark}")


@contextmanager
def running(side: str, model: str, python: str, shape: Port) -> Iterator[Side]:
    """A server that has answered once; stopped with all its processes at the end."""
    port, name = free_port(), model.partition(":")[0]
    command = ([sys.executable, "-m", "handtorch", "serve", "--model", model, "--port", str(port),
                "--rows", str(ROWS), "--wait-ms", str(1e3 * WAIT_S)] if side == OURS else
               [python, str(Path(__file__).with_name(f"serving_{side}.py")), model, str(port),
                str(ROWS), str(WAIT_S)])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=ENVIRONMENT, start_new_session=True)
    try:
        found = Side(side, port, request_for(side, shape, name), process.pid)
        end = time.monotonic() + START_S
        while not _answers(found):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{side} does not start: {' '.join(command)}")
            time.sleep(0.25)
        yield found
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):     # its own session: nobody else's
            try:
                os.killpg(process.pid, number)
                process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _answers(side: Side) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", side.port), timeout=30) as sock:
            return _asked(sock, side.request)
    except OSError:
        return False


def _asked(sock: socket.socket, request: bytes) -> bool:
    """Whether the answer, which is read to its end, is a result."""
    sock.sendall(request)
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        got = sock.recv(1 << 16)
        if not got:
            raise ConnectionError("no answer")
        data += got
    head = data[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        raise ConnectionError("an answer without its length")
    left = int(head[at + 15:].split(b"\r\n")[0]) - (len(data) - end - 4)
    while left > 0:
        left -= len(sock.recv(1 << 16))
    return head.startswith(b"http/1.1 200")


def block(side: Side, connections: int, seconds: float) -> Block:
    """So many clients, each asking again when it has its answer; the first tenth is not counted."""
    begin = time.perf_counter() + 0.1 * seconds
    end = begin + seconds
    latencies: list[list[float]] = [[] for _ in range(connections)]
    failed: list[str] = []

    def client(kept: list[float]) -> None:
        with socket.create_connection(("127.0.0.1", side.port), timeout=60) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (start := time.perf_counter()) < end:
                if not _asked(sock, side.request):
                    failed.append(side.name)
                    return
                if start >= begin:
                    kept.append(time.perf_counter() - start)
    threads = [threading.Thread(target=client, args=(kept,)) for kept in latencies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    every = sorted(ms for kept in latencies for ms in kept)
    if failed:
        raise SystemExit(f"{side.name}: an answer that is no result")
    if not every:
        raise SystemExit(f"{side.name}: no answer in {seconds:g} s, so --seconds must be more")
    return Block(len(every) / took, 1e3 * every[len(every) // 2],
                 1e3 * every[min(len(every) - 1, int(0.99 * len(every)))], len(every))


def has(python: str, peer: str) -> str:
    """Empty, or why this peer cannot be measured."""
    done = subprocess.run([python, "-c", f"import {MODULES[peer]}, handtorch.cloud.engines, torch"],
                          env=knobs.environment_for_child(), capture_output=True, text=True,
                          check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


def measured(sides: Sequence[Side], connections: int, rounds: int, seconds: float
             ) -> dict[str, list[Block]]:
    blocks: dict[str, list[Block]] = {side.name: [] for side in sides}
    for number in range(rounds):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            blocks[side.name].append(block(side, connections, seconds))
    return blocks


def told(blocks: dict[str, list[Block]]) -> dict[str, object]:
    """Medians of each side, and our ratio to each peer, round by round."""
    record: dict[str, object] = {name: {
        "per_s": median(b.per_s for b in of), "p50_ms": median(b.p50_ms for b in of),
        "p99_ms": median(b.p99_ms for b in of), "answers": sum(b.answers for b in of),
        "per_s_of_rounds": [b.per_s for b in of]} for name, of in blocks.items()}
    for peer in blocks:
        if peer != OURS:
            ratios = sorted(a.per_s / b.per_s for a, b in
                            zip(blocks[OURS], blocks[peer], strict=True))
            record[f"ratio to {peer}"] = {"median": median(ratios), "least": ratios[0],
                                          "most": ratios[-1]}
    return record


def table(connections: int, record: dict[str, object]) -> str:
    lines = [f"{connections} connections"]
    for name, row in record.items():
        assert isinstance(row, dict)
        lines.append(f"  {name:10} {row['per_s']:8.1f}/s  p50 {row['p50_ms']:7.2f} ms  "
                     f"p99 {row['p99_ms']:7.2f} ms  ({row['answers']} answers)"
                     if "per_s" in row else
                     f"  {name}: {row['median']:.2f} ({row['least']:.2f} to {row['most']:.2f})")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", default="SqueezeNet1_1:imagenet")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--only", choices=PEERS, help="one peer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    name, _, form = args.model.partition(":")
    port = open_engine(ZooModel(name, form), CPU).inputs[0]
    peers = [p for p in PEERS if args.only in (None, p)]
    absent = {peer: why for peer in peers if (why := has(args.peers, peer))}
    for peer, why in absent.items():
        progress(f"{peer} is left out: {why}")
    with ExitStack() as stack:
        sides = [stack.enter_context(running(side, args.model, args.peers, port))
                 for side in (OURS, *(p for p in peers if p not in absent))]
        progress(f"running: {', '.join(side.name for side in sides)}")
        records = {n: told(measured(sides, n, args.rounds, args.seconds)) for n in (1, 8)}
    if args.json:
        print(json.dumps({"model": args.model, "absent": absent, "connections": records}))
    else:
        print(args.model, *(table(n, record) for n, record in records.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
