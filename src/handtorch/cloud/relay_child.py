"""A relay in a process of its own: `python -m` this.

The first line of its standard input is what to relay, as JSON; its answer is the port. Then each
line asks for the log. It ends when its standard input does, and so with whoever started it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from handtorch.cloud.relaying import Relaying, RelaySettings, precise_loop
from handtorch.errors import HandTorchError
from handtorch.place.network import Network, Trace

_STDIN = 0


def to_line(record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def settings_to_line(settings: RelaySettings) -> bytes:
    return to_line(asdict(settings))


def settings_of(record: Mapping[str, Any]) -> RelaySettings:
    """What `settings_to_line` was given."""
    told = dict(record["network"])
    for name in ("up_trace", "down_trace"):
        if told[name] is not None:
            told[name] = Trace(tuple(told[name]["at_ms"]), told[name]["packet_bytes"])
    told["outages_s"] = tuple(tuple(outage) for outage in told["outages_s"])
    told["unconfirmed"] = tuple(told["unconfirmed"])
    return RelaySettings(**{**record, "network": Network(**told)})


async def _relayed(relaying: Relaying) -> None:
    ended = asyncio.Event()
    _say({"port": relaying.start()})

    def asked() -> None:
        text = os.read(_STDIN, 4096)
        if not text:
            ended.set()
        for _ in range(text.count(b"\n")):
            _say(relaying.log().to_record())
    asyncio.get_running_loop().add_reader(_STDIN, asked)
    await ended.wait()
    relaying.close()


def _say(record: object) -> None:
    sys.stdout.buffer.write(to_line(record))
    sys.stdout.buffer.flush()


def main() -> None:
    # Not by sys.stdin, which would keep what follows the line to itself.
    line = bytearray()
    while not line.endswith(b"\n"):
        got = os.read(_STDIN, 1 << 16)
        if not got:
            return
        line += got
    try:
        relaying = Relaying(settings_of(json.loads(line)))
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(_relayed(relaying))
    except HandTorchError as e:
        _say({"error": {"what": e.what, "why": e.why, "fix": e.fix}})
    except KeyboardInterrupt:
        pass                            # the same key has ended whoever listened


if __name__ == "__main__":
    main()
