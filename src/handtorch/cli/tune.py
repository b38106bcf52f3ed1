"""`handtorch tune`: search the parameters of products and convolutions on this device."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_NOT_DONE, EXIT_OK
from handtorch.cli.of_zoo import captured_model
from handtorch.errors import BadInput, StorageError

if TYPE_CHECKING:
    from handtorch.graph.node import Graph
    from handtorch.kernels.variant import Problem, Variant
    from handtorch.runtime.opencl.discover import FoundDevice
    from handtorch.tune.search import Progress
    from handtorch.tune.store import Results

HELP = "Search kernel parameters on this device; each result is checked before it counts"
EXAMPLE = "handtorch tune ResNet50 --batch 16 --time 10m"
COMMON = ("device", "quick")
_QUICK = "128x128x128,32x64x128 nt,bmm 8x16x32x16 nt,conv 4x8x8x16 32 3x3 p1x1"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_BAR = 24


def add_args(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("model", metavar="MODEL|FILE.ht", nargs="?", help="tune what the training "
                      "step of this model of the zoo, or a saved step or model, consists of")
    what.add_argument("--shapes", metavar="LIST", help="what to tune. Products: rows x columns x "
                      "depth, and which operands are transposed: 512x512x512,32x256x784 nt. Batches"
                      " of them: bmm 8x32x64x16 nt. Passes of convolutions: conv, conv_grad_input "
                      "or conv_grad_weight, pictures, channels out, kernel, then stride, padding, "
                      "dilation and groups if need be: conv 16x32x32x64 128 3x3 s2x2 p1x1 d1x1 g1")
    parser.add_argument("--form", default="", help="which of the model's forms; the first if not "
                        "named")
    parser.add_argument("--batch", metavar="N", type=int, default=32,
                        help="rows (samples) of a batch of a model of the zoo (32)")
    parser.add_argument("--full", action="store_true", help="everything the kernels can be built "
                        "with, not only what is likely: hours")
    parser.add_argument("--time", metavar="SPAN", help="stop after 60s, 5m or 2h; the next run "
                        "goes on from there")
    parser.add_argument("--fresh", action="store_true", help="forget what is known of this device "
                        "and driver, failures included")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--export", metavar="FILE", type=Path, help="write what is known of this "
                       "device and driver to FILE, tune nothing")
    files.add_argument("--import", metavar="FILE", type=Path, dest="import_", help="take over "
                       "somebody's results for the same device and driver; each is tried first")


def run(args: Namespace, out: TextIO) -> int:
    """Tune, export or import; exit 1 if an imported result failed here."""
    from handtorch.pipeline import tuned_file
    from handtorch.runtime.opencl.discover import choose
    from handtorch.tune.store import Results

    span_s = _seconds(args.time)
    device = choose(args.device)
    path = tuned_file(device.spec)
    results = Results(path, device.spec) if args.fresh else Results.open(path, device.spec)
    if args.export:
        return _export(args, out, results)
    if wrong := _failed_self_test(device):
        results.bar(*wrong)
        results.save()
    if args.import_:
        return _import(args, out, device, results)
    return _tune(args, out, device, results, span_s)


def _tune(args: Namespace, out: TextIO, device: FoundDevice, results: Results,
          span_s: float | None) -> int:
    import time

    from handtorch.tune.search import Search
    from handtorch.tune.trial import Worker

    problems = _problems(args)
    until_s = None if span_s is None else time.monotonic() + span_s
    show = _Bar(sys.stderr)
    try:
        with closing(Worker(device.label)) as worker:
            finished = Search(results, worker, problems, args.full, until_s, show).run()
    except KeyboardInterrupt:
        show.end()
        sys.stderr.write(f"what was found so far is in {results.path}; the same command goes on "
                         "from there\n")
        raise
    show.end()
    record = _record(device, results, problems)
    if args.json:
        out.write(json.dumps({**record, "finished": finished}) + "\n")
        return EXIT_OK
    out.write(_table(record))
    if not finished:
        out.write(f"stopped after {args.time}; the same command goes on from there\n")
    return EXIT_OK


def _problems(args: Namespace) -> tuple[Problem, ...]:
    from handtorch.kernels.results import as_problem
    from handtorch.tune.families import usual_problems

    if args.model:
        return _of_model(args)
    listed = args.shapes or (_QUICK if args.quick else "")
    if not listed:
        return usual_problems()
    return tuple(dict.fromkeys(as_problem(" ".join(text.split())) for text in listed.split(",")))


def _of_model(args: Namespace) -> tuple[Problem, ...]:
    """All that can be tuned in a step or model, as it is after all passes."""
    from handtorch.pipeline import prepared
    from handtorch.tune.contained import problems_in

    found = problems_in(prepared(graph) for graph in _graphs(args))
    if not found:
        raise BadInput(f"tune {args.model}", why="there are no products and no convolutions in it",
                       fix="--shapes")
    return found


def _graphs(args: Namespace) -> list[Graph]:
    if not args.model.endswith(".ht"):
        return [captured_model(args.model, args.batch, args.form, asked=f"tune {args.model}",
                               example="handtorch tune ResNet50",
                               without_torch="; or FILE.ht; or --shapes")]
    from handtorch.store.ht_file import read_ht

    held = read_ht(Path(args.model))
    return [part.graph for part in (held.micro or held.train, held.infer) if part is not None]


def _failed_self_test(device: FoundDevice) -> list[str]:
    """What the self-test of this driver found wrong, as it is built, if it has run."""
    from handtorch import selftest
    from handtorch.kernels.catalog import all_cases
    from handtorch.kernels.variant import built_by

    wrong = {line.split(": ")[0] for line in selftest.verdict(device, run=False).detail}
    if not wrong:
        return []
    found = {built for case in all_cases() if case.name in wrong
             for step in case.steps for built in built_by(step)}
    return sorted(found)


def _export(args: Namespace, out: TextIO, results: Results) -> int:
    from handtorch.store.atomic import write_atomically

    if not results.best:
        raise BadInput("nothing to export", why="nothing was tuned on this device and driver yet",
                       fix="`handtorch tune`")
    try:
        write_atomically(args.export, results.to_bytes())
    except OSError as e:
        raise StorageError(f"{args.export} cannot be written", why=str(e.strerror)) from e
    told = f"{len(results.best)} shapes"
    out.write(json.dumps({"file": str(args.export), "problems": len(results.best)}) + "\n"
              if args.json else f"{args.export}: {told}\n")
    return EXIT_OK


def _import(args: Namespace, out: TextIO, device: FoundDevice, results: Results) -> int:
    from handtorch.tune.search import take_over
    from handtorch.tune.store import offered
    from handtorch.tune.trial import Worker

    best, avoid = offered(args.import_, device.spec)
    show = _Bar(sys.stderr)
    with closing(Worker(device.label)) as worker:
        refused = take_over(results, worker, best, avoid, show)
    show.end()
    record = _record(device, results, tuple(best))
    if args.json:
        out.write(json.dumps({**record, "refused": [str(p) for p in refused]}) + "\n")
    else:
        out.write(_table(record))
        out.writelines(f"not taken over: {p}\n" for p in refused)
    return EXIT_NOT_DONE if refused else EXIT_OK


def _record(device: FoundDevice, results: Results, problems: tuple[Problem, ...]
            ) -> dict[str, Any]:
    """What is known of these problems; times are None where nothing was timed."""
    def time_ns(problem: Problem, variant: Variant | None) -> int | None:
        trial = results.right(problem).get(variant) if variant is not None else None
        return trial.time_ns if trial else None
    rows = []
    for problem in problems:
        best, table = results.best.get(problem), problem.table_variant(results.spec)
        rows.append({"problem": str(problem), "variant": best and str(best),
                     "time_ns": time_ns(problem, best), "table_variant": str(table),
                     "table_time_ns": time_ns(problem, table),
                     "tried": sum(p == problem for p, _ in results.trials)})
    failed = [{"problem": str(p), "variant": str(v), "state": t.state, "why": t.why}
              for p, v, t in results.failures()]
    return {"device": device.label, "name": device.spec.name, "driver": device.spec.driver,
            "file": str(results.path), "problems": rows, "failed": failed}


def _table(record: dict[str, Any]) -> str:
    wide = max(len("shape"), *(len(r["problem"]) for r in record["problems"]))
    lines = [f"{'shape':<{wide}}  tried      table       best  gain  variant"]
    for row in record["problems"]:
        best, table = row["time_ns"], row["table_time_ns"]
        gain = f"{table / best:.2f}" if best and table else "-"
        lines.append(f"{row['problem']:<{wide}}  {row['tried']:>5}  {_time(table):>9}  "
                     f"{_time(best):>9}  {gain:>4}  {row['variant'] or 'not done'}")
    lines += [f"failed: {f['problem']} {f['variant']}: {f['state']}: {f['why']}"
              for f in record["failed"]]
    return "\n".join([*lines, f"results in {record['file']}", ""])


def _time(nanoseconds: int | None) -> str:
    return "-" if nanoseconds is None else f"{nanoseconds / 1e3:.1f} us"


def _seconds(text: str | None) -> float | None:
    """`60s`, `5m`, `2h` or a number of seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if not found or not float(found[1]):
        raise BadInput(f"--time {text}", why="it is not a span of time", fix="60s, 5m or 2h")
    return float(found[1]) * _UNITS[found[2]]


class _Bar:
    """A bar that is drawn over itself on a terminal; elsewhere a line for each problem."""

    def __init__(self, err: TextIO) -> None:
        self._err, self._drawn = err, err.isatty()

    def __call__(self, at: Progress) -> None:
        share = at.done / max(1, at.of)
        bar = "#" * round(share * _BAR)
        if self._drawn:
            what = f"{at.problem} {at.variant or ''} {at.trial.state if at.trial else ''}"
            self._err.write(f"\r[{bar:<{_BAR}}] {at.done}/{at.of} {what:<60.60}")
        elif at.trial is None:
            self._err.write(f"{at.done}/{at.of} tried, {at.problem}\n")
        self._err.flush()

    def end(self) -> None:
        if self._drawn:
            self._err.write("\n")
