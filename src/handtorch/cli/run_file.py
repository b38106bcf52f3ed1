"""Run files as commands make them: named, turned into a page, told of at the end."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from handtorch import knobs


def progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def fresh(name: str) -> Path:
    """A new file in the folder for them."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path(knobs.value("HANDTORCH_RUNS")) / f"{name}-{stamp}.htr"


def page_of(path: Path) -> Path:
    """The page of a run file lies beside it afterwards."""
    from handtorch.record import read_run
    from handtorch.report import write_page

    return write_page(read_run(path), path.with_suffix(".html"))


def show(args: Namespace, out: TextIO, told: Sequence[str], summary: bool = False, **files: Path
         ) -> None:
    """What was found, with `summary` what that taught about the device, and in the last lines where
    it is kept; with --json the whole record with its files. The run file is called `run_file`."""
    from handtorch.record import read_run, to_json
    from handtorch.report.learnt import learnt

    run = read_run(files["run_file"])
    lines = learnt(run) if summary else ()
    if args.json:
        record = {**({"learnt": lines} if summary else {}), **json.loads(to_json(run))}
        out.write(json.dumps({**{name: str(path) for name, path in files.items()}, **record})
                  + "\n")
        return
    names = {name: name.replace("_", " ") for name in files}
    wide = max(len(name) for name in names.values())
    taught = ["What was learnt about this device:", *lines, ""] if lines else []
    kept = [f"{names[n]:<{wide}}  {path}" for n, path in files.items()]
    out.write("\n".join([*told, *taught, *kept, ""]))
