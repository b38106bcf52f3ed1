"""`handtorch report RUN...`: a page from run files; `--serve`: a folder's runs on a local page."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch import knobs
from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.record import Run

HELP = "Make a page from a run file, compare several runs, or follow a running study live"
EXAMPLE = "handtorch report runs/before.htr runs/after.htr --out compared.html"
COMMON: tuple[str, ...] = ()
_NOT_A_RUN = {".html": "that is a page: name the run file beside it",
              ".kept": "that is what a long study keeps: name the run file beside it"}


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN.htr", type=Path, help="one run, or several "
                        "to compare; with --serve a folder (HANDTORCH_RUNS)")
    parser.add_argument("--out", metavar="FILE.html", type=Path, help="page to write (else beside "
                        "the first run)")
    parser.add_argument("--serve", action="store_true", help="a page on this machine alone, which "
                        "lists the folder's runs, compares them and follows those that are being "
                        "written; ends with Ctrl-C or SIGTERM")
    parser.add_argument("--port", type=int, help="with --serve: 0 takes a free one [0]")


def run(args: Namespace, out: TextIO) -> int:
    if args.serve:
        return _serve(args, out)
    if args.port is not None:
        raise BadInput("--port", why="it belongs to --serve", fix="handtorch report --serve "
                       f"--port {args.port}")
    if not args.runs:
        raise BadInput("no run named", why=_there(), fix=EXAMPLE)
    return _page(args, out)


def _there() -> str:
    """The newest runs of the usual folder, to choose from."""
    folder = Path(knobs.value("HANDTORCH_RUNS"))
    found = sorted(folder.glob("*.htr"), key=lambda path: path.stat().st_mtime)[-3:]
    return f"the newest are {', '.join(map(str, found))}" if found else f"{folder} holds none yet"


# --- pages

def _page(args: Namespace, out: TextIO) -> int:
    """A page of one run, or of several side by side."""
    from handtorch.report import write_comparison, write_page

    runs = [_read(path) for path in args.runs]
    target = args.out or _beside(args.runs)
    if target.resolve() in [path.resolve() for path in args.runs]:
        raise BadInput(f"--out {target}", why="that is the run file itself",
                       fix=f"--out {target.with_suffix('.html')}")
    page = write_page(runs[0], target) if len(runs) == 1 else write_comparison(
        runs, target, [path.stem for path in args.runs])
    if args.json:
        out.write(json.dumps({"page": str(page), **_record(args.runs, runs)}) + "\n")
    else:
        out.write("\n".join([*_told(args.runs, runs), f"page  {page}", ""]))
    return EXIT_OK


def _read(path: Path) -> Run:
    from handtorch.record import read_run

    if path.is_dir():
        raise BadInput(f"run file {path}", why="that is a folder",
                       fix=f"handtorch report --serve {path}")
    if path.suffix in _NOT_A_RUN:
        raise BadInput(f"run file {path}", why=_NOT_A_RUN[path.suffix],
                       fix=str(path.with_suffix(".htr")))
    return read_run(path)


def _beside(paths: Sequence[Path]) -> Path:
    if len(paths) == 1:
        return paths[0].with_suffix(".html")
    stems = "-and-".join(dict.fromkeys(path.stem for path in paths))
    return paths[0].with_name(f"{stems[:120]}.html")


def _record(paths: Sequence[Path], runs: Sequence[Run]) -> dict[str, Any]:
    """Of one run the whole record; of several who they are and the figures that two share."""
    from handtorch.record import to_json
    from handtorch.report.learnt import learnt
    from handtorch.report.matched import matched

    if len(runs) == 1:
        return {"run_file": str(paths[0]), "learnt": list(learnt(runs[0])),
                **json.loads(to_json(runs[0]))}
    shared = [{"study": m.study, "name": m.name, "subject": m.subject, "x_name": m.x_name,
               "x_value": m.x_value, "unit": m.unit,
               "values": [None if r is None else r.value for r in m.results],
               "ratios": [m.ratio(at) for at in range(len(runs))],
               "within_spread": [m.within_spread(at) for at in range(len(runs))]}
              for m in matched(runs)]
    return {"runs": [{"run_file": str(path), **asdict(one.info)}
                     for path, one in zip(paths, runs, strict=True)], "figures": shared}


def _told(paths: Sequence[Path], runs: Sequence[Run]) -> list[str]:
    from handtorch.report.learnt import learnt
    from handtorch.report.matched import letter, matched

    if len(runs) == 1:
        return list(learnt(runs[0]))
    named = [f"{letter(at)}  {path}  {one.info.command}"
             for at, (path, one) in enumerate(zip(paths, runs, strict=True))]
    shared = matched(runs)
    known = [m for m in shared if m.ratio(1) is not None]
    apart = [m for m in known if m.within_spread(1) is False]
    return [*named, f"{len(shared)} figures in common; of {len(known)} known in A and B, "
            f"{len(apart)} differ by more than their spread"]


# --- serve

def _serve(args: Namespace, out: TextIO) -> int:
    """Answers until Ctrl-C or SIGTERM, both of which are a good end."""
    import signal
    import threading

    from handtorch.report import render, render_comparison
    from handtorch.report.live import LOOPBACK, Live
    from handtorch.studies.kept_told import told

    if args.out is not None:
        raise BadInput("--out", why="--serve writes no file", fix="leave it out")
    if len(args.runs) > 1:
        raise BadInput("--serve", why="it takes one folder", fix=f"--serve {args.runs[0]}")
    folder = args.runs[0] if args.runs else Path(knobs.value("HANDTORCH_RUNS"))
    server = Live(folder, args.port or 0, render, render_comparison, told)
    url = f"http://{LOOPBACK}:{server.port}/"
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    answering = threading.Thread(target=server.serve_forever, name="handtorch-report")
    answering.start()
    out.write(json.dumps({"url": url, "folder": str(folder)}) + "\n" if args.json else
              f"the runs in {folder} are at {url} (Ctrl-C ends it)\n")
    out.flush()
    ended.wait()
    server.end()
    answering.join()
    server.server_close()
    return EXIT_OK
