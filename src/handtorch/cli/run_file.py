"""Run files as commands make them: named, turned into a page, told of at the end."""

from __future__ import annotations

import json
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TextIO

from handtorch import knobs
from handtorch.cli.main import Terminated


def progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def fresh(name: str) -> Path:
    """A new file in the folder for them."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path(knobs.value("HANDTORCH_RUNS")) / f"{name}-{stamp}.htr"


@contextmanager
def ends_whole(path: Path) -> Iterator[None]:
    """Inside, SIGTERM ends the run as Ctrl-C does: what was measured so far is in its file, which
    has a page. Once: `timeout` sends it twice, and the second must not stop the clearing up."""
    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated("stopped by SIGTERM")

    # Only the main thread may; another one's run ends when its process does.
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if main else None
    try:
        yield
    except KeyboardInterrupt:
        progress(f"what was measured so far is in {path} and {page_of(path)}")
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


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
