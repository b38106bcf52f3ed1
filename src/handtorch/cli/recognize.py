"""`handtorch recognize PICTURE...`: what is in a picture, and what each step of that took."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.cloud.client import InCloud
    from handtorch.cloud.models import Offer
    from handtorch.cloud.on_device import OnDevice
    from handtorch.cloud.recognised import Recognised
    from handtorch.profile.use import Meter

HELP = "Recognise what is in pictures, here or on a server, and show what each step took"
EXAMPLE = ("handtorch recognize cat.jpg --model squeezenet --weights FILE.safetensors "
           "--labels FILE.txt")
COMMON = ("device",)


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("pictures", nargs="+", metavar="PICTURE", type=Path,
                        help="JPEG, PNG or WebP files")
    parser.add_argument("--where", choices=("device", "cloud"), default="device",
                        help="here, or on a server [device]")
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
    parser.add_argument("--send", choices=("png", "jpeg", "original"), default="png",
                        help="to a server: made small and exact, smaller and nearly so, or the "
                             "file as it is [png]")
    parser.add_argument("--preloaded", action="store_true",
                        help="load the model before the first picture, not as part of it")
    parser.add_argument("--sheet", metavar="NAME|FILE.toml",
                        help="estimate joules from a power sheet where no sensor tells them")
    parser.add_argument("--no-sensors", action="store_true", help="do not read sensors meanwhile")
    parser.add_argument("--trust-programs", action="store_true",
                        help="run programs in a .ht file whoever made them")


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
    with _recognizer(args, offer) as recognise:
        with Meter(sheet, sensors=not args.no_sensors) as meter:
            preloaded = args.preloaded or args.where == "cloud"
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


@contextmanager
def _recognizer(args: Namespace, offer: Offer) -> Iterator[OnDevice | InCloud]:
    from handtorch.cloud.client import InCloud
    from handtorch.cloud.local_server import LocalServer
    from handtorch.cloud.on_device import OnDevice
    if args.url is not None and args.where == "device":
        raise BadInput("--url with --where device", fix="--where cloud")
    with ExitStack() as stack:
        recognise: OnDevice | InCloud
        if args.where == "device":
            recognise = OnDevice(offer)
        else:
            url = args.url
            if url is None:
                _progress("starting a server on this machine")
                url = stack.enter_context(LocalServer(serve_options(args, offer))).url
            from handtorch import knobs
            recognise = InCloud(url, offer.name, labels=offer.labels, sending=args.send,
                                token=knobs.value("HANDTORCH_TOKEN") or None)
        stack.callback(recognise.close)
        yield recognise


def serve_options(args: Namespace, offer: Offer) -> list[str]:
    """The same model for `handtorch serve`."""
    options = ["--model", args.model, "--engine", offer.engine, "--rows", "1", "--wait-ms", "0"]
    for name in ("weights", "labels", "recipe", "device"):
        if value := getattr(args, name):
            options += [f"--{name}", value]
    return [*options, *(["--trust-programs"] if args.trust_programs else [])]


def _told(args: Namespace, offer: Offer, recognise: OnDevice | InCloud,
          found: Sequence[Recognised], meter: Meter, preloaded: bool) -> dict[str, Any]:
    in_cloud = args.where == "cloud"
    trained = getattr(recognise, "trained", offer.trained)
    return {
        "where": args.where, "model": offer.name,
        "engine": getattr(recognise, "engine", "") or offer.engine, "place": recognise.place,
        "url": args.url, "cold": not preloaded, "recipe": recognise.recipe.name,
        "weights": ("the server's" if in_cloud and args.url else args.weights or
                    (str(args.model) if trained else "random")),
        "trained": trained, "sent": args.send if in_cloud else None,
        "pictures": [_picture(one, meter) for one in found]}


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
    for one in told["pictures"]:
        shown = [f"{ms:.1f} {step}" for step, ms in one["steps_ms"].items() if ms]
        lines += ["", f"{one['file']}  {one['width']} x {one['height']}",
                  f"  {', '.join(shown)}; {one['end_to_end_ms']:.1f} ms in all",
                  f"  {_used(one)}"]
        lines += [f"  {'' if p is None else format(p, '.3f')} {name}" for name, p in
                  zip(one["labels"], one["probabilities"], strict=True)]
        if one["labels_reason"]:
            lines.append(f"  no labels: {one['labels_reason']}")
    return "\n".join([*lines, ""])


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
