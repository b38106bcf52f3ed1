"""`handtorch doctor`: one file about this machine, to send to others; `--compare A B`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.errors import BadInput

HELP = "Write one file about devices, drivers, sensors and speed that can be sent to others"
EXAMPLE = "handtorch doctor --out my-phone.json"
COMMON = ("device",)
_FILE = Path("handtorch-doctor.json")


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE.json", type=Path, help=f"file to write [{_FILE}]")
    parser.add_argument("--no-self-test", action="store_true",
                        help="tell verdicts already known, test nothing")
    parser.add_argument("--no-benchmark", action="store_true", help="measure nothing")
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), type=Path,
                        help="tell what differs between two such files; writes none")


def run(args: Namespace, out: TextIO) -> int:
    """Exit 1 if a self-test failed: the file tells which."""
    if args.compare:
        return _compare(args, out)
    from handtorch.cli.devices import size
    from handtorch.doctor.file import write
    from handtorch.doctor.gather import Asked, gather
    from handtorch.runtime.opencl import discover

    path = args.out or _FILE
    chosen = discover.choose(args.device) if args.device else _default()
    shown = (chosen,) if args.device and chosen else discover.find_devices()
    asked = Asked(bool(args.device), not args.no_self_test, not args.no_benchmark)
    record = gather(shown, chosen, asked, _say)
    write(record, path)
    if args.json:
        out.write(json.dumps({"file": str(path), **record}) + "\n")
    else:
        out.write("\n".join([
            *(_line(device) for device in record["devices"]), _sensors(record),
            f"file  {path} ({size(path.stat().st_size)})",
            "Nothing in it names you, your machine or your files. It is plain text: look through "
            "it, then send it.", ""]))
    failed = any(d["self_test"]["state"] == "failed" for d in record["devices"])
    return EXIT_NOT_DONE if failed else EXIT_OK


def _default() -> Any:
    """None on a machine without a device: that too is worth a file."""
    from handtorch.errors import NoDevice
    from handtorch.runtime.opencl import discover

    try:
        return discover.choose()
    except (NoDevice, BadInput):        # a knob that names none is no reason to write nothing
        return None


def _compare(args: Namespace, out: TextIO) -> int:
    from handtorch.doctor.compare import compare, told
    from handtorch.doctor.file import read

    if args.out is not None:
        raise BadInput("--out", why="--compare writes no file", fix="leave it out")
    a, b = (read(path) for path in args.compare)
    found = compare(a, b)
    if args.json:
        out.write(json.dumps({"a": str(args.compare[0]), "b": str(args.compare[1]),
                              "differences": [asdict(d) for d in found]}) + "\n")
    else:
        out.write(f"A  {args.compare[0]}\nB  {args.compare[1]}\n\n{told(found)}")
    return EXIT_OK


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _line(device: dict[str, Any]) -> str:
    from handtorch.doctor.compare import busy_share, figure_text

    figures = ", ".join(f"{name} {figure_text(figure)}"
                        for name, figure in device["benchmark"].items())
    why = f"not measured: {device['benchmark_reason']}" if device["benchmark_reason"] else ""
    share = busy_share(device)
    beside = "" if share is None else f" (beside other programs: {share:.0%} of the cores)"
    return (f"{device['label']}: {device['name']}, driver {device['driver']}, self-test "
            f"{device['self_test']['state']}; {figures or why or 'not measured'}{beside}")


def _sensors(record: dict[str, Any]) -> str:
    families = list(dict.fromkeys(s["meter"] for s in record["sensors"]))
    return (f"sensors: {len(record['sensors'])} signals of {', '.join(families) or 'none'}; "
            f"{len(record['sensors_absent'])} families cannot be read")
