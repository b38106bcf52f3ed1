"""`handtorch place MODEL`: where a picture is recognised best, why, and what would change it."""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.place.decide import Decision, Target
    from handtorch.place.known import Known
    from handtorch.place.network import Network
    from handtorch.place.situation import Situation

HELP = "Show where a picture is recognised best, on the device or in the cloud, and why"
EXAMPLE = "handtorch place squeezenet --network lte --megapixels 8 --device nexus-5 --target energy"
COMMON: tuple[str, ...] = ()
_OPENCL, _CPU = "device OpenCL", "device CPU"


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL",
                        help="alexnet, nin, squeezenet, mobilenetv2 or FILE.ht")
    parser.add_argument("--network", default="wifi-campus", metavar="NAME|FILE.toml",
                        help="what is between device and server [wifi-campus]: docs/networks.md")
    picture = parser.add_mutually_exclusive_group()
    picture.add_argument("--picture", type=Path, metavar="FILE", help="JPEG, PNG or WebP")
    picture.add_argument("--megapixels", type=float, metavar="N",
                         help="of a picture that is made for it [2]")
    parser.add_argument("--device", metavar="SHEET", help="a phone or board by its sheet: nexus-5, "
                        "..., or a .toml file; without it this machine, and no joules")
    parser.add_argument("--engine", choices=("cpu", "opencl"), default="opencl",
                        help="torch on the CPU, or ours on an OpenCL device [opencl]")
    parser.add_argument("--device-ms", type=float, metavar="N",
                        help="what computing takes on the device, if you know it; else foretold "
                             "by the sheet, or measured")
    parser.add_argument("--server-ms", type=float, metavar="N",
                        help="what computing takes on the server, if you know it")
    parser.add_argument("--url", help="a server to measure; without it this machine stands for it")
    parser.add_argument("--target", choices=("latency", "energy"), default="latency",
                        help="what to keep lowest: time or joules [latency]")
    for option, what in (("--p50-ms", "the median time"), ("--p90-ms", "what nine of ten take"),
                         ("--energy-j", "the joules of a picture")):
        parser.add_argument(option, type=float, metavar="N", help=f"{what} must not be above it")
    parser.add_argument("--memory", metavar="SIZE", help="nor the memory on the device: 512MiB")
    parser.add_argument("--private", action="store_true", help="no picture leaves the device")
    parser.add_argument("--burst", type=int, default=1, metavar="N",
                        help="how many pictures, one after the other [1]")
    parser.add_argument("--gap-s", type=float, default=1.0, metavar="S",
                        help="seconds from one picture of a burst to the next [1]")
    parser.add_argument("--radio-up", action="store_true",
                        help="the radio is up already, and a connection open")


def run(args: Namespace, out: TextIO) -> int:
    """Exit 1 if no candidate keeps every limit."""
    from handtorch.place.crossover import explained
    from handtorch.place.networks import read_network
    from handtorch.place.told import record
    network, target = read_network(args.network), _target(args)
    with tempfile.TemporaryDirectory(prefix="handtorch-") as folder:
        at = _situation(args, network, Path(folder))
    decision = explained(at, target)
    told = {"model": args.model, "network": network.name,
            "megapixels": at.picture.megapixels, "file_bytes": at.picture.file_bytes,
            "device": at.sheet.name if at.sheet else None, **record(decision)}
    out.write(json.dumps(told) + "\n" if args.json else _text(args, network, at, decision))
    return EXIT_OK if decision.qualified else EXIT_NOT_DONE


def _target(args: Namespace) -> Target:
    from handtorch.api.budget import as_bytes
    from handtorch.place.decide import Target
    p50_s, p90_s = (None if ms is None else ms / 1e3 for ms in (args.p50_ms, args.p90_ms))
    memory = None if args.memory is None else float(as_bytes(args.memory))
    return Target(args.target, p50_s, p90_s, args.energy_j, memory, args.private)


def _situation(args: Namespace, network: Network, folder: Path) -> Situation:
    """Figures that were given, and measured ones where there are none."""
    from handtorch.place.ask import typical_bytes
    from handtorch.place.known import Known
    from handtorch.place.link import link_of
    from handtorch.place.radio import radio_in
    from handtorch.place.rescale import DECODING, PAPERS_PHONE
    from handtorch.place.sheet import read_sheet
    from handtorch.place.situation import SMALL_BYTES, Local, Picture, Server, Situation
    megapixels = 2.0 if args.megapixels is None else args.megapixels
    if not 0.001 <= megapixels <= 25:
        raise BadInput(f"--megapixels {megapixels:g}", why="pictures have 0.001 to 25")
    if args.burst < 1 or args.gap_s < 0:
        raise BadInput(f"--burst {args.burst} --gap-s {args.gap_s:g}", why="there is one picture "
                       "or more, 0 s or more apart")
    sheet = None if args.device is None else read_sheet(args.device)
    at = Situation(Picture(megapixels, typical_bytes(megapixels)),
                   dict.fromkeys(("device", *SMALL_BYTES), PAPERS_PHONE), link=link_of(network),
                   radio=radio_in(sheet, network.radio), sheet=sheet,
                   since_s=0.0 if args.radio_up else None, burst=args.burst, gap_s=args.gap_s,
                   cold=not args.radio_up)
    name = _OPENCL if args.engine == "opencl" else _CPU

    def given(ms: float, option: str) -> Known:
        if not 0 < ms < float("inf"):
            raise BadInput(f"{option} {ms:g}", why="it is a number above 0")
        return Known(ms / 1e3, "estimated", f"{option}")
    if args.device_ms is not None:
        one = Local(name, given(args.device_ms, "--device-ms"))
        at = replace(at, locals=(one.all_of(at.sheet, gpu=args.engine == "opencl"),))
    if args.server_ms is not None:
        at = replace(at, server=Server(given(args.server_ms, "--server-ms"), DECODING))
    if args.device_ms is None or args.server_ms is None or args.picture is not None:
        at = _measured(args, at, folder, megapixels)
    return at


def _measured(args: Namespace, at: Situation, folder: Path, megapixels: float) -> Situation:
    """What was not given is foretold by a sheet or measured here, and a server if one was named."""
    from handtorch import knobs
    from handtorch.cloud.foretold import foretold
    from handtorch.cloud.measured import make_photo, measure_here, measure_there, picture_of
    from handtorch.cloud.offers import Given, offer_of
    from handtorch.cloud.recipes import TORCHVISION
    path = args.picture or make_photo(folder, megapixels)
    at = replace(at, picture=picture_of(path, TORCHVISION))
    if args.url is not None and args.server_ms is None:
        _progress(f"measuring the server at {args.url}")
        at = replace(at, server=measure_there(args.url, args.model, path,
                                              knobs.value("HANDTORCH_TOKEN") or None))
    name = Path(args.model).stem if args.model.endswith(".ht") else args.model
    offer = offer_of(name, "1", args.model, Given(args.engine))
    if at.sheet is not None and not at.locals:
        _progress(f"foretelling {args.model} on {at.sheet.name}")
        at = replace(at, locals=foretold(offer.source, at.sheet))
    if at.locals and at.server is not None:
        return at
    _progress(f"measuring {args.model} here")
    found, recipe = measure_here(offer, path, folder)
    if not at.locals:
        at = replace(at, locals=(found.local,),
                     rescalings=dict.fromkeys(at.rescalings, found.rescaling))
    return replace(at, server=at.server or found.as_server(), picture=picture_of(path, recipe))


def _text(args: Namespace, network: Network, at: Situation, decision: Decision) -> str:
    from handtorch.profile.columns import table
    head = ("candidate", "median ms", "90th ms", "J", "memory MB", "")
    rows = []
    for judged in decision.judged:
        one = judged.candidate
        mark = "chosen" if one is decision.chosen else "not allowed" if judged.forbidden else (
            "breaks a limit" if judged.violation else "")
        rows.append((one.name, _shown(one.p50_s, 1e3, ".1f"), _shown(one.p90_s, 1e3, ".1f"),
                     _shown(one.energy_j, 1.0, ".3g"), _shown(one.memory_bytes, 1e-6, ".0f"), mark))
    many = f", {args.burst} of them" if args.burst > 1 else ""
    doubt = f" ({', '.join(network.unconfirmed)} not confirmed)" if network.unconfirmed else ""
    lines = [f"{args.model}, {at.picture.megapixels:.2g} megapixels in "
             f"{at.picture.file_bytes / 1e3:.0f} KB{many}, over {network.name}{doubt}, for least "
             f"{args.target}", "", table(head, rows),
             "m measured, e estimated, s simulated; joules are those above an idle device", "",
             f"{decision.chosen.name}, because", *(f"  {said}" for said in decision.reasons)]
    if decision.changes:
        lines += ["What would change it", *(f"  {said}" for said in decision.changes)]
    lines += ["Where the figures are from",
              *(f"  {how}" for how in dict.fromkeys(_sources(decision)))]
    return "\n".join([*lines, ""])


def _sources(decision: Decision) -> list[str]:
    from handtorch.place.known import PLUS
    ranked = [j.candidate for j in decision.judged]
    return [part for one in ranked for known in (one.p50_s, one.energy_j)
            if known.value is not None for part in known.how.split(PLUS)]


def _shown(known: Known, factor: float, form: str) -> str:
    if known.value is None:
        return "-"
    return f"{format(factor * known.value, form)} {known.provenance[0]}"


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
