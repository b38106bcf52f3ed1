"""`handtorch relay`: a network between a client and a server, on this machine and without root."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.cloud.relay_check import Accuracy
    from handtorch.cloud.relay_log import Late, RelayLog
    from handtorch.place.network import Network

HELP = "Put a slow network between a client and a server: rate, delay, jitter, loss, outages"
EXAMPLE = "handtorch relay --to 127.0.0.1:8000 --network lte --port 8001"
COMMON = ()
_SHOWN = 20                 # messages in the table; --json has all that are kept


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("--to", metavar="HOST:PORT", help="where connections go")
    parser.add_argument("--network", required=True, metavar="NAME|FILE.toml",
                        help="one that ships (wifi-campus, lte, 3g, ...), or a file: "
                             "docs/networks.md")
    for way in ("up", "down"):
        parser.add_argument(f"--{way}-trace", type=Path, metavar="FILE",
                            help=f"a Mahimahi trace in place of the rate {way}")
    parser.add_argument("--host", default="127.0.0.1", help="where it listens [127.0.0.1]")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one [0]")
    parser.add_argument("--seed", type=int, default=0, help="of jitter and loss [0]")
    parser.add_argument("--seconds", type=float, metavar="S",
                        help="end after so long; else with Ctrl-C or SIGTERM")
    parser.add_argument("--check", action="store_true",
                        help="first measure how exactly it keeps to the network; without --to, "
                             "only that")


def run(args: Namespace, out: TextIO) -> int:
    """Relays until it is told to end, then shows what passed; not done if its check missed."""
    from handtorch.cloud.relay_check import measured
    network = _network(args)
    target = None if args.to is None else _target(args.to)
    if target is None and not args.check:
        raise BadInput("nowhere to relay to", fix=EXAMPLE)
    if args.seconds is not None and args.seconds <= 0:
        raise BadInput(f"--seconds {args.seconds:g}", why="that is no time")
    say = sys.stderr if args.json else out
    say.write(_about(network))
    say.flush()
    accuracy = measured(network) if args.check else None
    if accuracy is not None:
        say.write(_checked(accuracy))
        say.flush()
    log = None if target is None else _relayed(args, target, network, say)
    if args.json:
        from dataclasses import asdict
        out.write(json.dumps({
            "network": {**asdict(network), "up_trace": network.up_trace is not None,
                        "down_trace": network.down_trace is not None},
            "accuracy": None if accuracy is None else {**asdict(accuracy), "good": accuracy.good},
            "log": None if log is None else log.to_record()}) + "\n")
    elif log is not None:
        out.write(_passed(log))
    return EXIT_OK if accuracy is None or accuracy.good else EXIT_NOT_DONE


def _network(args: Namespace) -> Network:
    from dataclasses import replace

    from handtorch.cloud.relaying import check_network
    from handtorch.place.networks import read_network
    from handtorch.place.trace import read_trace
    network = read_network(args.network)
    if args.up_trace is not None:
        trace = read_trace(args.up_trace)
        network = replace(network, up_trace=trace, up_bps=trace.mean_bps,
                          source=f"{network.source}; up: trace {args.up_trace.name}")
    if args.down_trace is not None:
        trace = read_trace(args.down_trace)
        network = replace(network, down_trace=trace, down_bps=trace.mean_bps,
                          source=f"{network.source}; down: trace {args.down_trace.name}")
    check_network(network)
    return network


def _target(text: str) -> tuple[str, int]:
    host, sign, port = text.rpartition(":")
    if not sign or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadInput(f"--to {text}", why="it is not HOST:PORT", fix=EXAMPLE)
    return host.strip("[]"), int(port)


def _relayed(args: Namespace, target: tuple[str, int], network: Network, say: TextIO) -> RelayLog:
    """In this process, until a signal or the time comes."""
    import asyncio
    import signal

    from handtorch.cloud.addresses import in_url, is_loopback
    from handtorch.cloud.relaying import Relaying, RelaySettings, precise_loop
    if not is_loopback(args.host):
        print(f"WARNING: whoever reaches {args.host} reaches {args.to} through it, and nothing is "
              "encrypted that was not before.", file=sys.stderr, flush=True)
    relaying = Relaying(RelaySettings(*target, network, args.host, args.port, args.seed))

    async def relayed() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        port = relaying.start()
        say.write(f"relaying http://{in_url(args.host)}:{port} to {args.to}\n")
        say.flush()
        try:
            async with asyncio.timeout(args.seconds):
                await ended.wait()
        except TimeoutError:
            pass                                # it was to last so long
        relaying.close()
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(relayed())
    return relaying.log()


def _about(network: Network) -> str:
    faults = "".join(f", {text}" for text, there in (
        (f"jitter to {network.jitter_ms:g} ms", network.jitter_ms),
        (f"loss {network.loss:.2%}", network.loss),
        (f"{len(network.outages_s)} outages", network.outages_s)) if there)
    up, down = (f"{bps / 1e6:g} Mb/s{'' if trace is None else ' (mean of a trace)'}" for bps, trace
                in ((network.up_bps, network.up_trace), (network.down_bps, network.down_trace)))
    return (f"{network.name}: {up} up, {down} down, round trip {network.rtt_ms:g} ms{faults}\n"
            + (f"not confirmed: {', '.join(network.unconfirmed)}\n" if network.unconfirmed else "")
            + "no slow start, no congestion window; a new connection costs one round trip\n")


def _checked(accuracy: Accuracy) -> str:
    return ("rate asked, achieved (least to most), error; delay asked, found, error\n"
            + "".join(f"{way.line()}\n" for way in accuracy.ways) 
            + _late(accuracy.late) + _late(accuracy.late_alone, "short messages")
            + ("" if accuracy.good else "the check MISSED: rate within 5 %, delay within 2 ms\n"))


def _late(late: Late, what: str = "deliveries") -> str:
    return (f"{late.count} {what}, late by {_ms(late.median_ms)} ms in the middle, "
            f"{_ms(late.p99_ms)} ms at 99 %, {_ms(late.most_ms)} ms at most\n")


def _passed(log: RelayLog) -> str:
    lines = [f"{log.connections} connections, {log.refused} refused, "
             f"{len(log.bursts) + log.left_out} messages; "
             f"packets sent again: {log.lost['up']} up, {log.lost['down']} down",
             _late(log.late).rstrip(), _late(log.woken, "times it slept").rstrip()
             + f"; polled for {_ms(log.polled_ms)} ms instead"]
    if log.bursts:
        lines.append(f"{'conn':>5} {'way':<5}{'bytes':>10}{'whole ms':>12}{'carried ms':>12}")
    for burst in log.bursts[-_SHOWN:]:
        lines.append(f"{burst.connection:>5} {burst.way:<5}{burst.out_bytes:>10}"
                     f"{_ms(burst.whole_ms):>12}{_ms(burst.carried_ms):>12}"
                     f"{'' if burst.complete else f'  of {burst.in_bytes}'}")
    return "\n".join(lines) + "\n"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
