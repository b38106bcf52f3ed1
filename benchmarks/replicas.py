"""Answers a second with one replica and with two, and what clients see when one is killed.

    python benchmarks/replicas.py [--model SqueezeNet1_1:imagenet] [--rounds N] [--json]

Needs ray (`pip install handtorch[ray]`). Each server is `handtorch serve --engine ray`, both are up
at the same time and asked in turn over 8 connections, in blocks of a few seconds; a replica has one
thread of torch. Then a replica of the second is killed with SIGKILL under that load, twice: every
request that was sent has to be answered with 200. Ends with 1 where two replicas did not serve more
in the median, or a request was not answered."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np

from handtorch.cloud.asking import Asking
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.replica_pids import replica_pids
from handtorch.errors import HandTorchError

CLIENTS, BLOCK_S = 8, 4.0


def load(url: str, model: str, x: np.ndarray, seconds: float
         ) -> tuple[int, list[str]]:
    """Answers of all clients within the time, and what went wrong."""
    until_s = time.monotonic() + seconds

    def client(_: int) -> tuple[int, list[str]]:
        asking, count = Asking(url, model), 0
        while time.monotonic() < until_s:
            try:
                asking.scores(x)
            except HandTorchError as e:
                return count, [str(e)]
            count += 1
        return count, []
    with ThreadPoolExecutor(CLIENTS) as threads:
        found = list(threads.map(client, range(CLIENTS)))
    return sum(n for n, _ in found), [w for _, words in found for w in words]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="SqueezeNet1_1:imagenet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    name = args.model.partition(":")[0]
    options = ["--model", args.model, "--engine", "ray", "--rows", "1", "--wait-ms", "0"]
    rates: dict[int, list[float]] = {1: [], 2: []}
    with LocalServer([*options, "--replicas", "1"]) as one:
        one.url                                 # noqa: B018  up before the next: Ray takes ports
        with LocalServer([*options, "--replicas", "2"]) as two:
            servers = {1: one, 2: two}
            shape = (1, *Asking(two.url, name).row_shape)
            x = np.random.default_rng(0).standard_normal(shape).astype("f4")
            for server in servers.values():
                load(server.url, name, x, 3.0)
            for _ in range(args.rounds):
                for count, server in servers.items():
                    answers, wrong = load(server.url, name, x, BLOCK_S)
                    assert not wrong, wrong
                    rates[count].append(answers / BLOCK_S)
            killed: list[int] = []

            def kill() -> None:
                for _ in range(2):
                    time.sleep(3.0)
                    pid = replica_pids(two.pid)[0]
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            killer = threading.Thread(target=kill)
            killer.start()
            answers, wrong = load(two.url, name, x, 14.0)
            killer.join()
            left = replica_pids(two.pid)
    ratios = sorted(b / a for a, b in zip(rates[1], rates[2], strict=True))
    told = {"model": args.model, "per_s": {str(k): median(v) for k, v in rates.items()},
            "ratio": median(ratios), "least": ratios[0], "most": ratios[-1], "killed": len(killed),
            "answered_meanwhile": answers, "not_answered": wrong, "replicas_after": len(left)}
    met = told["ratio"] > 1 and not wrong and len(killed) == 2
    print(json.dumps(told) if args.json else
          f"{args.model}: {told['per_s']['1']:.1f} answers a second with one replica, "
          f"{told['per_s']['2']:.1f} with two: {told['ratio']:.2f} ({ratios[0]:.2f} to "
          f"{ratios[-1]:.2f})\n{len(killed)} replicas killed under load: {answers} answers, "
          f"{len(wrong)} requests not answered, {len(left)} replicas afterwards: "
          f"{'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
