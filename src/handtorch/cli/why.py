"""`handtorch why RUN.htr`: why its steps are slow, how well they are foretold, and a trace."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.cli.profile import write_trace

HELP = "Tell from a run file why its steps are slow, and make a trace of it for a viewer"
EXAMPLE = "handtorch why har.htr --trace har.pftrace"
COMMON: tuple[str, ...] = ()


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("run_file", metavar="RUN.htr", type=Path, help="a run with launches, as "
                        "`handtorch profile --out` makes it")
    parser.add_argument("--subject", default="", help="which model of the run; the first if not "
                        "named")
    parser.add_argument("--place", default="", help="on which place of the run; the first if not "
                        "named")
    parser.add_argument("--torch", metavar="RUN.htr", type=Path, help="the same model by torch on "
                        "the CPU, to compare with; may be the same file")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write a trace too: Chrome's "
                        "JSON if it ends in .json or .json.gz, else Perfetto's format")


def run(args: Namespace, out: TextIO) -> int:
    from handtorch.profile import predict
    from handtorch.profile import why as reasons
    from handtorch.record import read_run

    taken = read_run(args.run_file)
    beside = read_run(args.torch) if args.torch is not None else None
    found = reasons.why(taken, subject=args.subject, place=args.place, torch=beside)
    foretold = predict.of_run(taken).get((found.subject, found.place))
    if args.trace is not None:
        write_trace(taken, args.trace)
    if args.json:
        told = {"why": asdict(found), "top": [asdict(c) for c in found.top],
                "predictability": None if foretold is None else asdict(foretold),
                "trace": None if args.trace is None else str(args.trace)}
        out.write(json.dumps(told) + "\n")
        return EXIT_OK
    out.write(reasons.told(found) + "\n")
    if foretold is not None:
        out.write(predict.told(foretold) + "\n")
    if args.trace is not None:
        out.write(f"trace  {args.trace}\n")
    return EXIT_OK
