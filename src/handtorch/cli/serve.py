"""`handtorch serve`: a model for others, over HTTP; ends with SIGTERM."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from handtorch.cli.main import EXIT_OK, version

if TYPE_CHECKING:
    from handtorch.cloud.models import Offer

HELP = "Serve models over HTTP: pictures or tensors in, labels or tensors out"
EXAMPLE = "handtorch serve --model squeezenet --weights FILE.safetensors --labels FILE.txt"
COMMON = ("device",)


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("--model", action="append", required=True, metavar="[NAME=]MODEL",
                        help="alexnet, nin, squeezenet, mobilenetv2, another model of the zoo as "
                             "MODEL[:FORM], or FILE.ht; repeatable, the same NAME again is its "
                             "next version")
    parser.add_argument("--engine", choices=("cpu", "opencl", "ray", "ray:cpu", "ray:opencl"),
                        help="torch on the CPU, or ours on an OpenCL device [cpu; opencl for .ht]; "
                             "with ray in replicas, which are processes of Ray Serve")
    parser.add_argument("--replicas", default="", metavar="N|MIN-MAX",
                        help="with ray: how many, or as many as are needed within bounds [1]")
    for option, meta, text in (
            ("--weights", "[NAME=]FILE", "safetensors or npz; else random ones"),
            ("--labels", "[NAME=]FILE", "one class to a line"),
            ("--recipe", "[NAME=]caffe|torchvision", "how a picture becomes the model's input")):
        parser.add_argument(option, action="append", default=[], metavar=meta, help=text)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; any but this "
                        "machine's own needs a token [127.0.0.1]")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one [0]")
    parser.add_argument("--token-file", type=Path, metavar="FILE",
                        help="holds the word that clients must give (else HANDTORCH_TOKEN)")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="for TLS, in PEM")
    parser.add_argument("--key", type=Path, metavar="FILE", help="of that certificate, in "
                        "PEM")
    parser.add_argument("--rows", type=int, default=8, help="samples in a batch at most [8]")
    parser.add_argument("--wait-ms", type=float, default=2.0, metavar="MS",
                        help="how long a request waits for others to share its batch [2]")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=NUMBER",
                        help="another limit than the default, see docs/serving.md; repeatable")
    parser.add_argument("--cold", action="store_true",
                        help="load nothing until a client asks for it")
    parser.add_argument("--trust-programs", action="store_true",
                        help="run programs in a .ht file whoever made them")


def run(args: Namespace, out: TextIO) -> int:
    """Announces the address when all models are ready; returns after the last answer."""
    from handtorch.cloud.limits import limits_with
    from handtorch.errors import BadInput
    try:
        from handtorch.cloud.serve import Settings, serve
    except ImportError as e:
        raise BadInput("handtorch serve", why=f"a library is missing ({e})",
                       fix="pip install handtorch[cloud]") from e
    offers = offers_of(args)
    if not 0 <= args.wait_ms <= 1000:
        raise BadInput(f"--wait-ms {args.wait_ms:g}", why="nobody waits less than 0 ms, or more "
                       "than 1000 ms, for others")
    settings = Settings(offers, args.host, args.port, _token(args), args.certificate, args.key,
                        args.cold, limits_with([f"rows={args.rows}", *args.limit]),
                        args.wait_ms / 1e3, version())

    def announce(url: str) -> None:
        names = list(dict.fromkeys(offer.name for offer in offers))
        told = {"url": url, "models": names, "engines": sorted({o.engine for o in offers})}
        out.write(json.dumps(told) + "\n" if args.json else
                  f"serving {', '.join(names)} at {url}\n")
        out.flush()
    serve(settings, announce, lambda text: print(text, file=sys.stderr, flush=True))
    return EXIT_OK


def _token(args: Namespace) -> str | None:
    from handtorch import knobs
    from handtorch.errors import StorageError
    if args.token_file is None:
        return knobs.value("HANDTORCH_TOKEN") or None
    try:
        return str(args.token_file.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as e:
        raise StorageError(f"{args.token_file} cannot be read", why=str(e)) from e


def offers_of(args: Namespace) -> tuple[Offer, ...]:
    """What the options say, one for each `--model`, versions counted from 1."""
    from handtorch.cloud.offers import Given, offer_of
    from handtorch.errors import BadInput
    named = [_name_and_rest(text) for text in args.model]
    extras = {option: _by_name(option, getattr(args, option), [n for n, _ in named])
              for option in ("weights", "labels", "recipe")}
    offers: list[Offer] = []
    for name, model in named:
        number = sum(o.name == name for o in offers) + 1
        offers.append(offer_of(name, str(number), model, Given(
            args.engine, args.device, args.trust_programs, replicas=args.replicas,
            **{option: found.get(name, "") for option, found in extras.items()})))
    if not offers:
        raise BadInput("nothing to serve", fix=EXAMPLE)
    return tuple(offers)


def _name_and_rest(text: str) -> tuple[str, str]:
    """NAME=MODEL; without a name the file's own, or the model's."""
    name, given, model = text.partition("=")
    if not given:
        name, model = "", text
    return name or (Path(model).stem if model.endswith(".ht") else model.partition(":")[0]), model


def _by_name(option: str, given: list[str], names: list[str]) -> dict[str, str]:
    """FILE belongs to the one model there is, NAME=FILE to the model of that name."""
    from handtorch.errors import BadInput
    found = {}
    for text in given:
        name, sign, rest = text.partition("=")
        if not sign or name not in names:
            if len(set(names)) != 1:
                raise BadInput(f"--{option} {text}", why=f"there are {', '.join(names)}",
                               fix=f"--{option} {names[0]}={text}")
            name, rest = names[0], text
        found[name] = rest
    return found
