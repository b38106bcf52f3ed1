"""How late this machine wakes who sleeps, and what of a relay's delay that makes.

    python benchmarks/waking.py [--rounds N] [--json]

First every way to wait, in turn, for 1 to 100 ms: how late each was. Then short messages through a
relay of 40 Mb/s: from the sender to the relay's stamp, late at the relay, from there to a receiver
that sleeps. Nothing is judged; `benchmarks/relay.py` does that."""

from __future__ import annotations

import argparse
import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from handtorch.cloud.relay import Relay
from handtorch.place.network import Network

WAITS_MS = (1, 5, 20, 100)
DELAYS_MS = (5, 20, 50, 100, 200)
_EARLY_S = 0.001
_MOST_S = 4.0                       # of one way and wait
_PING = bytes(16)
_EPOLL = select.epoll() if hasattr(select, "epoll") else None


def poll(seconds: float) -> None:
    until_ns = time.monotonic_ns() + seconds * 1e9
    while time.monotonic_ns() < until_ns:
        pass


def early(seconds: float) -> None:
    until_ns = time.monotonic_ns() + seconds * 1e9
    if seconds > _EARLY_S:
        select.select((), (), (), seconds - _EARLY_S)
    while time.monotonic_ns() < until_ns:
        pass


WAYS: dict[str, Callable[[float], object]] = {
    "sleep": time.sleep, "select": lambda s: select.select((), (), (), s),
    **({} if _EPOLL is None else {"epoll": _EPOLL.poll}),
    "select, 1 ms early, then poll": early, "poll": poll}


def told(name: str, late_ms: list[float]) -> dict[str, Any]:
    ordered, count = sorted(late_ms), len(late_ms)
    return {"name": name, "count": count, "most_ms": ordered[-1],
            **{f"p{share}_ms": ordered[min(count - 1, count * share // 100)]
               for share in (50, 90, 99)}}


def waits(rounds: int) -> list[dict[str, Any]]:
    found = []
    for wait_ms in WAITS_MS:
        late: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(min(rounds, int(_MOST_S * 1e3 / wait_ms))):
            for name, way in WAYS.items():
                begin_ns = time.monotonic_ns()
                way(wait_ms / 1e3)
                late[name].append((time.monotonic_ns() - begin_ns) / 1e6 - wait_ms)
        found += [told(f"{wait_ms} ms, {name}", values) for name, values in late.items()]
    return found


def messages(delay_ms: int, rounds: int) -> list[dict[str, Any]]:
    """Up and down in turn, so that each is a message of its own in the relay's log."""
    network = Network("waking", 40e6, 40e6, 2.0 * delay_ms, "wifi", "of this benchmark")
    stamps = []
    with (socket.create_server(("127.0.0.1", 0)) as listening,
          Relay("127.0.0.1", listening.getsockname()[1], network) as relay,
          socket.create_connection((relay.host, relay.port), timeout=30) as near):
        far, _ = listening.accept()
        time.sleep(2e-3 * delay_ms + 0.05)                  # the handshake
        with far:
            for number in range(rounds):
                for source, sink in ((near, far), (far, near)):
                    time.sleep(0.004 + 0.00037 * (number % 16))
                    begin_ns = time.monotonic_ns()
                    source.sendall(_PING)
                    assert sink.recv(len(_PING)) == _PING
                    stamps.append((begin_ns, time.monotonic_ns()))
            log = relay.log()
    assert len(log.bursts) == len(stamps)
    parts: dict[str, list[float]] = {"to the relay": [], "at the relay": [], "to the receiver": []}
    for burst, (begin_ns, end_ns) in zip(log.bursts, stamps, strict=True):
        assert burst.first_out_ns is not None and burst.carried_ms is not None
        parts["to the relay"].append((burst.first_in_ns - begin_ns) / 1e6)
        parts["at the relay"].append(burst.carried_ms - len(_PING) * 8e3 / network.up_bps)
        parts["to the receiver"].append((end_ns - burst.first_out_ns) / 1e6)
    return [told(f"{delay_ms} ms, {name}", values) for name, values in parts.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [*waits(args.rounds),
            *(row for ms in DELAYS_MS for row in messages(ms, max(1, args.rounds // 5)))]
    if args.json:
        print(json.dumps(rows))
        return 0
    for row in rows:
        print(f"{row['name']:<40} late by {row['p50_ms']:7.3f} ms in the middle, "
              f"{row['p90_ms']:7.3f} at 90 %, {row['p99_ms']:7.3f} at 99 %, {row['most_ms']:7.3f} "
              f"at most, of {row['count']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
