"""How exactly the relay keeps to a network, and whether upload times agree with what it saw.

    python benchmarks/relay.py [--quick] [--only rates|uploads] [--times N] [--json]

Rates from 0.5 to 40 Mb/s, delays (one way) from 5 to 200 ms: the median and the spread of what came
of each, against the limits of 5 % and 2 ms. Then pictures and tensors through relays to a real
`handtorch serve`: `upload` as client and server report it against the relay's own log, within 5 %
or 2 ms. A cell is judged by its median; how many of its uploads agree is shown beside it. Relay,
server and client share this machine's cores. Ends with 1 if anything missed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np

from handtorch import knobs
from handtorch.baseline.fair import MOST_OTHERS, moment, share_of_others
from handtorch.cloud.client import Connection, InCloud
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.protocol import TIMING, Request, Tensor, encode_request
from handtorch.cloud.recognised import Steps
from handtorch.cloud.relay import Relay
from handtorch.cloud.relay_check import Accuracy, measured
from handtorch.cloud.relay_log import Burst
from handtorch.cloud.scenes import make_scenes
from handtorch.place.network import Network

RATES_MBPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)
DELAYS_MS = (5.0, 20.0, 50.0, 100.0, 200.0)
UPLOAD_DELAY_MS = 20.0
SHARE, LEAST_MS = 0.05, 2.0
MODEL = "squeezenet"
LONGEST_S = 12.0            # of one upload; larger ones are left out at slow rates, and not shown


@dataclass(frozen=True)
class Upload:
    """One cell: the same thing sent some times through the same network."""

    mbps: float
    what: str
    message_bytes: int
    reported_ms: float              # medians
    relay_ms: float
    error_ms: float                 # of reported to the relay's, the median and the largest
    worst_ms: float
    agreed: int
    count: int

    @property
    def good(self) -> bool:
        return agrees(self.relay_ms + self.error_ms, self.relay_ms)

    def line(self) -> str:
        return (f"{self.mbps:6g} Mb/s  {self.what:<18}{self.message_bytes:>9} B "
                f"{self.reported_ms:10.2f} ms  {self.relay_ms:10.2f} ms  {self.error_ms:+7.2f} ms "
                f"{self.error_ms / self.relay_ms:+7.2%}  worst {self.worst_ms:+7.2f}  "
                f"{self.agreed}/{self.count}{'' if self.good else '  MISSED'}")


def agrees(reported_ms: float, relay_ms: float) -> bool:
    return abs(reported_ms - relay_ms) <= max(SHARE * relay_ms, LEAST_MS)


def cell(mbps: float, what: str, pairs: list[tuple[float, Burst]]) -> Upload:
    """`pairs` are what was reported and what the relay saw of the same message."""
    seen = [(reported, burst.carried_ms) for reported, burst in pairs
            if burst.carried_ms is not None]
    assert len(seen) == len(pairs), "a message that has not arrived was answered"
    errors = [reported - carried for reported, carried in seen]
    return Upload(mbps, what, pairs[0][1].out_bytes, median(r for r, _ in seen),
                  median(c for _, c in seen), median(errors), max(errors, key=abs),
                  sum(agrees(*one) for one in seen), len(seen))


def network(mbps: float, delay_ms: float) -> Network:
    return Network(f"{mbps:g} Mb/s, {delay_ms:g} ms", mbps * 1e6, mbps * 1e6, 2 * delay_ms, "wifi",
                   "of this benchmark")


def rates(quick: bool, times: int) -> Iterator[Accuracy]:
    for mbps in RATES_MBPS:
        for delay_ms in DELAYS_MS[::4] if quick else DELAYS_MS:
            yield measured(network(mbps, delay_ms), seconds=0.5 if quick else 1.0, times=times)


def pictures(folder: Path) -> list[Path]:
    """One that is small and one that is not: photographs, or generated."""
    shared = knobs.value("HANDTORCH_SHARED")
    photos = sorted(Path(shared, "data/photos").glob("*.jp*g")) if shared else []
    scenes = make_scenes(folder, photos[:1], 1)
    return [scenes[2].path, scenes[1].path]


def ways_to_send(url: str, files: list[Path]) -> Iterator[tuple[str, Callable[[], float], int]]:
    """Each as its name, a function that sends it and gives the upload in ms, and about its size."""
    for sending in ("jpeg", "png", "original"):
        for file in files[:1] if sending != "original" else files:
            there = InCloud(url, MODEL, sending=sending)
            # How much it sends is known once it has; the file is no less than a square of it.
            about = file.stat().st_size if sending == "original" else 150_000
            yield (f"{sending} {file.stem[-9:]}",
                   lambda there=there, file=file: there(file).steps_ms["upload"], about)
            there.close()
    link, path = Connection(url), f"/v2/models/{MODEL}"
    port = link.get(path)["inputs"][0]
    x = np.random.default_rng(0).random((1, *port["shape"][1:]), dtype="f4")

    def tensor() -> float:
        steps = Steps()
        with steps.of("upload"):
            link.send(f"{path}/infer", encode_request(Request((Tensor.of(port["name"], x),))))
        link.wait()
        theirs = link.answer(path).parameters[TIMING]
        return max(steps.ms()["upload"], float(theirs["receive"]))
    yield f"tensor {'x'.join(map(str, x.shape))}", tensor, x.nbytes
    link.close()


def uploads(quick: bool, times: int) -> Iterator[Upload]:
    with (tempfile.TemporaryDirectory() as folder,
          LocalServer(["--model", MODEL, "--engine", "cpu", "--rows", "1"]) as server):
        files = pictures(Path(folder))
        at = urlsplit(server.url)
        assert at.hostname is not None and at.port is not None
        for mbps in RATES_MBPS[::3] if quick else RATES_MBPS:
            with Relay(at.hostname, at.port, network(mbps, UPLOAD_DELAY_MS)) as relay:
                for what, send, about in ways_to_send(relay.url, files):
                    if about * 8 / (mbps * 1e6) > LONGEST_S:
                        continue
                    pairs = []
                    for _ in range(times):
                        reported_ms, burst = send(), relay.log().last("up")
                        assert burst is not None
                        pairs.append((reported_ms, burst))
                    yield cell(mbps, what, pairs)


def children_s() -> float:
    """What relays and servers that have ended computed."""
    used = os.times()
    return used.children_user + used.children_system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer cells, shorter")
    parser.add_argument("--only", choices=("rates", "uploads"))
    parser.add_argument("--times", type=int, default=3, help="of each transfer [3]")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    say = sys.stderr if args.json else sys.stdout
    before, of_children_s, kept, sent = moment(), children_s(), [], []
    if args.only != "uploads":
        print("rate asked, achieved (least to most), error; delay asked, found, error", file=say)
        for found in rates(args.quick, args.times):
            kept.append(found)
            for way in found.ways:
                print(way.line(), file=say, flush=True)
    if args.only != "rates":
        print("rate, what, size, upload reported, relay's log, error", file=say)
        for one in uploads(args.quick, args.times):
            sent.append(one)
            print(one.line(), file=say, flush=True)
    others = share_of_others(before, children_s() - of_children_s)
    missed = sum(not a.good for a in kept) + sum(not u.good for u in sent)
    print(f"{len(kept)} networks and {len(sent)} uploads, {missed} missed; others used "
          f"{'an unknown share' if others is None else f'{others:.0%}'} of the machine", file=say)
    if args.json:
        print(json.dumps({"rates": [{**asdict(a), "good": a.good} for a in kept],
                          "uploads": [{**asdict(u), "good": u.good} for u in sent],
                          "others": others, "missed": missed}))
    if missed and (others is None or others > MOST_OTHERS):
        print(f"more than {MOST_OTHERS:.0%} went to others: measure again when they rest", file=say)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
