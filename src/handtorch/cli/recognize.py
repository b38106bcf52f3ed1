"""`handtorch recognize PICTURE...`: what is in a picture, and what each step of that took."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.cloud.auto import Auto, Logged
    from handtorch.cloud.client import InCloud
    from handtorch.cloud.models import Offer
    from handtorch.cloud.on_device import OnDevice
    from handtorch.cloud.recognised import Recognised
    from handtorch.place.sheet import Sheet
    from handtorch.profile.use import Meter

HELP = "Recognise what is in pictures, here or on a server, and show what each step took"
EXAMPLE = ("handtorch recognize cat.jpg --model squeezenet --weights FILE.safetensors "
           "--labels FILE.txt")
COMMON = ("device",)


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("pictures", nargs="+", metavar="PICTURE", type=Path,
                        help="JPEG, PNG or WebP files")
    parser.add_argument("--where", choices=("device", "cloud", "auto"), default="device",
                        help="here, on a server, or wherever it is best for each picture [device]")
    parser.add_argument("--model", default="squeezenet", metavar="MODEL",
                        help="alexnet, nin, squeezenet, mobilenetv2 or FILE.ht [squeezenet]")
    parser.add_argument("--engine", choices=("cpu", "opencl"),
                        help="torch on the CPU, or ours on an OpenCL device [opencl]")
    parser.add_argument("--weights", default="", metavar="FILE",
                        help="safetensors or npz; else random ones, and no labels")
    parser.add_argument("--labels", default="", metavar="FILE", help="one class to a line")
    parser.add_argument("--recipe", choices=("caffe", "torchvision"), default="",
                        help="how a picture becomes the input of a FILE.ht [torchvision]")
    parser.add_argument("--url", help="of the server; without it one is started on this machine")
    parser.add_argument("--send", choices=("png", "jpeg", "original"),
                        help="what goes to a server: the picture at the model's size, without "
                             "loss (png) or with some (jpeg), or the file as it is [png; with "
                             "--where auto whichever is best]")
    parser.add_argument("--preloaded", action="store_true",
                        help="load the model before the first picture, not as part of it")
    parser.add_argument("--sheet", metavar="NAME|FILE.toml",
                        help="estimate joules from a power sheet where no sensor tells them")
    parser.add_argument("--no-sensors", action="store_true", help="do not read sensors meanwhile")
    parser.add_argument("--trust-programs", action="store_true",
                        help="run programs in a .ht file whoever made them")
    auto = parser.add_argument_group("with --where auto")
    auto.add_argument("--target", choices=("latency", "energy"),
                      help="what to keep lowest: time or joules [latency]; energy needs --sheet "
                           "and --radio")
    auto.add_argument("--deadline-ms", type=float, metavar="N",
                      help="nine of ten pictures are to take no longer")
    auto.add_argument("--private", action="store_true",
                      help="no picture leaves the device, and no connection is made")
    auto.add_argument("--radio", choices=("wifi", "lte", "3g"), help="what carries pictures")


def run(args: Namespace, out: TextIO) -> int:
    """Every picture in turn; the first one waits for the model unless it is preloaded."""
    try:
        import handtorch.cloud.pictures  # noqa: F401
    except ImportError as e:
        raise BadInput("handtorch recognize", why=f"a library is missing ({e})",
                       fix="pip install handtorch[cloud]") from e
    from handtorch.place.sheet import read_sheet
    from handtorch.profile.use import Meter
    offer = _offer(args)
    for path in args.pictures:
        if not path.is_file():
            raise BadInput(f"no picture {path}", why="there is no such file")
    sheet = None if args.sheet is None else read_sheet(args.sheet)
    _refuse(args)
    with _recognizer(args, offer, sheet) as recognise:
        with Meter(sheet, sensors=not args.no_sensors) as meter:
            preloaded = args.preloaded or args.where != "device"
            if preloaded:
                recognise.load()
            found = [recognise(path) for path in args.pictures]
        told = _told(args, offer, recognise, found, meter, preloaded)
    out.write(json.dumps(told) + "\n" if args.json else _text(told))
    return EXIT_OK


def _offer(args: Namespace) -> Offer:
    from handtorch.cloud.offers import Given, offer_of
    name = Path(args.model).stem if args.model.endswith(".ht") else args.model
    return offer_of(name, "1", args.model, Given(
        args.engine or "opencl", args.device, args.trust_programs, args.weights, args.labels,
        args.recipe))


def _refuse(args: Namespace) -> None:
    """Options that would do nothing, or do what nobody can."""
    if args.url is not None and (args.where == "device" or args.private):
        raise BadInput(f"--url with {'--private' if args.private else '--where device'}",
                       fix="--where cloud, or --where auto")
    for option in ("target", "deadline_ms", "private", "radio"):
        if args.where != "auto" and getattr(args, option):
            raise BadInput(f"--{option.replace('_', '-')} with --where {args.where}",
                           why="there is nothing to decide", fix="--where auto")
    if args.target == "energy" and (args.sheet is None or args.radio is None):
        raise BadInput("--target energy", why="nobody says what the device and its radio draw",
                       fix="--sheet nexus-5 --radio lte")
    if args.deadline_ms is not None and not args.deadline_ms > 0:
        raise BadInput(f"--deadline-ms {args.deadline_ms:g}", why="it is a number above 0")


@contextmanager
def _recognizer(args: Namespace, offer: Offer, sheet: Sheet | None
                ) -> Iterator[OnDevice | InCloud | Auto]:
    from handtorch.cloud.on_device import OnDevice
    with ExitStack() as stack:
        recognise: OnDevice | InCloud | Auto
        if args.where == "device":
            recognise = OnDevice(offer)
        elif args.where == "cloud":
            recognise = _connected(args, offer, _url(args, offer, stack))
        else:
            recognise = _auto(args, offer, sheet, stack)
        stack.callback(recognise.close)
        yield recognise


def _url(args: Namespace, offer: Offer, stack: ExitStack) -> str:
    """Of the server that was named, or of one that is started here."""
    from handtorch.cloud.local_server import LocalServer
    if args.url is not None:
        return str(args.url)
    _progress("starting a server on this machine")
    return stack.enter_context(LocalServer(serve_options(args, offer))).url


def _connected(args: Namespace, offer: Offer, url: str) -> InCloud:
    from handtorch import knobs
    from handtorch.cloud.client import InCloud
    return InCloud(url, offer.name, labels=offer.labels, sending=args.send or "png",
                   token=knobs.value("HANDTORCH_TOKEN") or None)


def _auto(args: Namespace, offer: Offer, sheet: Sheet | None, stack: ExitStack) -> Auto:
    from handtorch.cloud.auto import Auto
    from handtorch.cloud.measured import way_name
    from handtorch.cloud.on_device import OnDevice
    from handtorch.place.decide import Target
    from handtorch.place.learn import Given
    from handtorch.place.radio import radio_in
    deadline_s = None if args.deadline_ms is None else args.deadline_ms / 1e3
    target = Target(args.target or "latency", p90_s=deadline_s, private=args.private)
    given = Given(sheet, None if args.radio is None else radio_in(sheet, args.radio))
    if args.send is not None:
        given = replace(given, sendings=(args.send,))
    here = {way_name(offer): OnDevice(offer)}
    if args.private:
        return Auto(here, None, target, given)
    url = _url(args, offer, stack)
    return Auto(here, lambda: _connected(args, offer, url), target, given)


def serve_options(args: Namespace, offer: Offer) -> list[str]:
    """The same model for `handtorch serve`."""
    options = ["--model", args.model, "--engine", offer.engine, "--rows", "1", "--wait-ms", "0"]
    for name in ("weights", "labels", "recipe", "device"):
        if value := getattr(args, name):
            options += [f"--{name}", value]
    return [*options, *(["--trust-programs"] if args.trust_programs else [])]


def _told(args: Namespace, offer: Offer, recognise: OnDevice | InCloud | Auto,
          found: Sequence[Recognised], meter: Meter, preloaded: bool) -> dict[str, Any]:
    from handtorch.cloud.auto import Auto
    trained = getattr(recognise, "trained", offer.trained)
    told: dict[str, Any] = {
        "where": args.where, "model": offer.name,
        "engine": getattr(recognise, "engine", "") or offer.engine,
        "place": getattr(recognise, "place", "here or there"), "url": args.url,
        "cold": not preloaded,
        "weights": ("the server's" if args.where == "cloud" and args.url else args.weights or
                    (str(args.model) if trained else "random")),
        "trained": trained,
        "sent": {"cloud": args.send or "png", "auto": args.send}.get(args.where),
        "pictures": [_picture(one, meter) for one in found]}
    if isinstance(recognise, Auto):
        return {**told, "decisions": [logged_record(one) for one in recognise.done]}
    return {**told, "recipe": recognise.recipe.name}


def logged_record(one: Logged) -> dict[str, Any]:
    """A decision and what came of it, with all that it was based on."""
    from handtorch.place.told import record
    return {"number": one.number, "picture": one.picture, "megapixels": one.megapixels,
            "kind": one.kind, "chosen": one.chosen, "used": one.used,
            "took_ms": 1e3 * one.took_s, "said": list(one.said),
            "decision": None if one.decision is None else record(one.decision)}


def _picture(one: Recognised, meter: Meter) -> dict[str, Any]:
    joules, span = meter.joules(one.span), one.span
    return {
        "file": one.name, "width": one.width, "height": one.height, "file_bytes": one.file_bytes,
        "sent_bytes": one.sent_bytes, "labels": [label.name for label in one.labels],
        "classes": [label.index for label in one.labels],
        "probabilities": [label.probability for label in one.labels],
        "labels_reason": one.no_labels, "steps_ms": dict(one.steps_ms),
        "sum_of_steps_ms": one.sum_ms, "end_to_end_ms": one.end_to_end_ms,
        "cpu_cores": span.cpu_ns / 1e9 / span.seconds,
        "device_share": None if span.device_ns is None else span.device_ns / 1e9 / span.seconds,
        "memory_bytes": span.resident_bytes,
        "power_w": joules.mean_w(span.seconds), "energy_mwh": joules.mwh,
        "energy_provenance": joules.provenance, "energy_how": joules.how}


def _text(told: Mapping[str, Any]) -> str:
    state = "cold" if told["cold"] else "preloaded"
    lines = [f"{told['model']} ({told['engine']}, {told['place']}), {told['where']}, {state}"]
    if not told["trained"]:
        lines.append("random weights: times are those of the real model, labels would mean nothing")
    for number, one in enumerate(told["pictures"]):
        shown = [f"{ms:.1f} {step}" for step, ms in one["steps_ms"].items() if ms]
        lines += ["", f"{one['file']}  {one['width']} x {one['height']}",
                  f"  {', '.join(shown)}; {one['end_to_end_ms']:.1f} ms in all",
                  f"  {_used(one)}", *_why(told, number)]
        lines += [f"  {'' if p is None else format(p, '.3f')} {name}" for name, p in
                  zip(one["labels"], one["probabilities"], strict=True)]
        if one["labels_reason"]:
            lines.append(f"  no labels: {one['labels_reason']}")
    return "\n".join([*lines, ""])


def _why(told: Mapping[str, Any], number: int) -> list[str]:
    """Where it was recognised and why, if that was decided."""
    if "decisions" not in told:
        return []
    one = told["decisions"][number]
    decided = one["decision"]
    why = "tried for the first time" if decided is None else decided["reasons"][0]
    return [f"  {one['used']} ({one['kind']}): {why}", *(f"  {said}" for said in one["said"])]


def _used(one: Mapping[str, Any]) -> str:
    words = [f"{one['cpu_cores']:.2f} cores", f"{one['memory_bytes'] / 1e6:.0f} MB"]
    if one["device_share"] is not None:
        words.append(f"device busy {one['device_share']:.0%}")
    if one["energy_mwh"] is None:
        words.append(f"energy unknown ({one['energy_how']})")
    else:
        words.append(f"{one['energy_mwh']:.4g} mWh at {one['power_w']:.3g} W, "
                     f"{one['energy_provenance']} ({one['energy_how']})")
    return ", ".join(words)


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
