"""How exactly the relay keeps to a network, and whether upload times agree with what it saw.

    python benchmarks/relay.py [--quick] [--only rates|uploads] [--times N] [--json]
                               [--keep FILE [--minutes M]]

Rates from 0.5 to 40 Mb/s, delays (one way) from 5 to 200 ms: the median and the spread of what came
of each, against the limits of 5 % and 2 ms. Then pictures and tensors through relays to a real
`handtorch serve`: `upload` as client and server report it against the relay's own log, within 5 %
or 2 ms. A cell is judged by its median; how many of its uploads agree is shown beside it. Relay,
server and client share this machine's cores. With `--keep` rows go to a file as they come, and
those that it has are not measured again; `--minutes` begins no row after that long. Ends with 1 if
anything missed, with 3 if rows are left."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
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
    def name(self) -> str:
        return upload_name(self.mbps, self.what)

    @property
    def good(self) -> bool:
        return agrees(self.relay_ms + self.error_ms, self.relay_ms)

    def line(self) -> str:
        return (f"{self.mbps:6g} Mb/s  {self.what:<18}{self.message_bytes:>9} B "
                f"{self.reported_ms:10.2f} ms  {self.relay_ms:10.2f} ms  {self.error_ms:+7.2f} ms "
                f"{self.error_ms / self.relay_ms:+7.2%}  worst {self.worst_ms:+7.2f}  "
                f"{self.agreed}/{self.count}{'' if self.good else '  MISSED'}")


@dataclass
class Kept:
    """Rows as records, by name; also in a file, if there is one, and of earlier runs."""

    path: Path | None
    until_s: float = float("inf")
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: int = 0

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.rows[row["name"]] = row

    def wants(self, name: str) -> bool:
        """Whether it is to be measured, now."""
        if name in self.rows:
            return False
        late = time.monotonic() > self.until_s
        self.left += late
        return not late

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["name"]] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def upload_name(mbps: float, what: str) -> str:
    return f"upload at {mbps:g} Mb/s: {what}"


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


def rates(quick: bool, times: int, kept: Kept) -> Iterator[Accuracy]:
    for mbps in RATES_MBPS:
        for delay_ms in DELAYS_MS[::4] if quick else DELAYS_MS:
            asked = network(mbps, delay_ms)
            if kept.wants(asked.name):
                yield measured(asked, seconds=0.5 if quick else 1.0, times=times)


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


def uploads(quick: bool, times: int, kept: Kept) -> Iterator[Upload]:
    with (tempfile.TemporaryDirectory() as folder,
          LocalServer(["--model", MODEL, "--engine", "cpu", "--rows", "1"]) as server):
        files = pictures(Path(folder))
        at = urlsplit(server.url)
        assert at.hostname is not None and at.port is not None
        for mbps in RATES_MBPS[::3] if quick else RATES_MBPS:
            with Relay(at.hostname, at.port, network(mbps, UPLOAD_DELAY_MS)) as relay:
                for what, send, about in ways_to_send(relay.url, files):
                    if about * 8 / (mbps * 1e6) > LONGEST_S or not kept.wants(
                            upload_name(mbps, what)):
                        continue
                    pairs = []
                    for _ in range(times):
                        reported_ms, burst = send(), relay.log().last("up")
                        assert burst is not None
                        pairs.append((reported_ms, burst))
                    yield cell(mbps, what, pairs)


def of_rates(found: Accuracy, others: float | None) -> dict[str, Any]:
    lines = [*(way.line() for way in found.ways),
             *(f"      {what}: {late.count} deliveries late by {late.median_ms:.2f} ms in the "
               f"middle, {late.p99_ms:.2f} ms at 99 %" for what, late in
               (("streams", found.late), ("short messages", found.late_alone)))]
    return {"kind": "rates", **asdict(found), "name": found.network, "others": others,
            "missed": sum(not way.good for way in found.ways), "lines": lines}


def of_upload(sent: Upload) -> dict[str, Any]:
    return {"kind": "upload", **asdict(sent), "name": sent.name, "missed": int(not sent.good),
            "lines": [sent.line()]}


def run(args: argparse.Namespace, kept: Kept) -> float | None:
    """What was asked for is measured, as far as time allows; how much others used of the machine.
    """
    say = sys.stderr if args.json else sys.stdout

    def add(row: dict[str, Any]) -> None:
        kept.add(row)
        print(*row["lines"], sep="\n", file=say, flush=True)
    first = moment()
    if args.only != "uploads":
        print("rate asked, achieved (least to most), error; delay asked, found, error", file=say)
        since = first
        for found in rates(args.quick, args.times, kept):
            add(of_rates(found, share_of_others(since)))
            since = moment()
    if args.only != "rates":
        print("rate, what, size, upload reported, relay's log, error", file=say)
        for one in uploads(args.quick, args.times, kept):
            add(of_upload(one))
    return share_of_others(first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer cells, shorter")
    parser.add_argument("--only", choices=("rates", "uploads"))
    parser.add_argument("--times", type=int, default=3, help="of each transfer [3]")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="rows so far, one JSON a line")
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="begin no row after so long")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    say = sys.stderr if args.json else sys.stdout
    kept = Kept(args.keep, time.monotonic() + 60 * args.minutes)
    others = run(args, kept)
    of = {kind: [row for row in kept.rows.values() if row["kind"] == kind]
          for kind in ("rates", "upload")}
    missed = sum(row["missed"] for row in kept.rows.values())
    print(f"{2 * len(of['rates'])} directions and {len(of['upload'])} uploads, {missed} missed, "
          f"{kept.left} left; others used "
          f"{'an unknown share' if others is None else f'{others:.0%}'} of the machine", file=say)
    if args.json:
        print(json.dumps({"rates": of["rates"], "uploads": of["upload"], "others": others,
                          "missed": missed, "left": kept.left}))
    if missed and (others is None or others > MOST_OTHERS):
        print(f"more than {MOST_OTHERS:.0%} went to others: measure again when they rest", file=say)
    return 1 if missed else 3 if kept.left else 0


if __name__ == "__main__":
    raise SystemExit(main())
