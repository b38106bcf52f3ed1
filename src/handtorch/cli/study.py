"""`handtorch study NAME`: one paper's experiments on this device; `all` is the main job."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from handtorch import knobs
from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput
from handtorch.studies import STUDIES

HELP = "Repeat a paper's experiments on this device, beside what was published"
EXAMPLE = "handtorch study sgemm --quick"
COMMON = ("device", "quick")
ALL = "all"


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME",
                        help=f"{', '.join(STUDIES)}, or {ALL}")
    parser.add_argument("--list", action="store_true", help="list the studies and their questions")
    parser.add_argument("--out", metavar="FILE", type=Path,
                        help="run file to write (else a new one in HANDTORCH_RUNS)")


def run(args: Namespace, out: TextIO) -> int:
    """Run the studies into one run file and make its page; an interrupted run is kept too."""
    from handtorch.record import RunWriter
    from handtorch.runtime.opencl.discover import choose
    from handtorch.studies.study import Setting, record_setting, study

    if args.list:
        return _list(args, out)
    if args.name is None:
        raise BadInput("no study named", why=f"there is {', '.join((*STUDIES, ALL))}",
                       fix="`handtorch study --list`")
    chosen = [study(name) for name in (STUDIES if args.name == ALL else (args.name,))]
    device = choose(args.device)
    path = args.out or _fresh(args.name)
    told = []
    try:
        with RunWriter.create(path, _command(args, device.label)) as record:
            record_setting(record, device)
            for module in chosen:
                at = Setting(device, record, args.quick, _progress)
                told.append(module.run(at))
    except KeyboardInterrupt:
        page = _page(path)
        _progress(f"what was measured so far is in {path} and {page}")
        raise
    _show(args, out, path, _page(path), told)
    return EXIT_OK


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _fresh(name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path(knobs.value("HANDTORCH_RUNS")) / f"{name}-{stamp}.htr"


def _command(args: Namespace, label: str) -> str:
    words = ["handtorch study", args.name, "--quick" if args.quick else "", f"--device {label}"]
    return " ".join(filter(None, words))


def _page(path: Path) -> Path:
    from handtorch.record import read_run
    from handtorch.report import write_page

    return write_page(read_run(path), path.with_suffix(".html"))


def _show(args: Namespace, out: TextIO, path: Path, page: Path, told: list[str]) -> None:
    from handtorch.record import read_run, to_json

    if args.json:
        record = json.loads(to_json(read_run(path)))
        out.write(json.dumps({"run_file": str(path), "page": str(page), **record}) + "\n")
        return
    out.write("\n".join([*told, f"run file  {path}", f"page      {page}", ""]))


def _list(args: Namespace, out: TextIO) -> int:
    from handtorch.studies.study import study

    questions = {name: study(name).QUESTION for name in STUDIES}
    if args.json:
        out.write(json.dumps({"studies": questions}) + "\n")
    else:
        wide = max(map(len, questions))
        out.writelines(f"{name:<{wide}}  {text}\n" for name, text in questions.items())
    return EXIT_OK
