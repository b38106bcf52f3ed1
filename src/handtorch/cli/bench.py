"""`handtorch bench TASK`: ours and its peers side by side, each in a process of its own."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.cli.of_zoo import entry_of
from handtorch.cli.run_file import ends_whole, fresh, page_of, progress, show

if TYPE_CHECKING:
    from handtorch.bench.cases import Wanted
    from handtorch.record import Verdict

HELP = "Compare with torch, inductor, tinygrad, MNN, ONNX Runtime and CLBlast, results first"
EXAMPLE = "handtorch bench train SqueezeNet1_1 --batch 16 --peers venv/bin/python"
COMMON = ("device", "quick")
TASKS = ("train", "infer", "kernels", "memory", "rnn")


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("task", choices=TASKS, help="training steps, inference, products of "
                        "matrices, memory of processes, or a recurrent net's latency")
    parser.add_argument("models", nargs="*", metavar="MODEL[:FORM]", help="models of the zoo "
                        "(`handtorch plan --list`); the suite of the training paper if none is "
                        "named")
    parser.add_argument("--batch", metavar="N", type=int, help="rows (samples) of a batch (16 "
                        "to train, 1 to infer)")
    parser.add_argument("--sides", metavar="A,B", default="", help="which to compare, of "
                        "handtorch, handtorch-ht, torch, inductor, onnxruntime, tinygrad, mnn, "
                        "clblast, numpy; all that can do it if not named")
    parser.add_argument("--peers", metavar="PYTHON", help="another Python, in which peers "
                        "are installed that this one has not")
    parser.add_argument("--rounds", metavar="N", type=int, help="how often each side has its "
                        "turn (9; quick: 3)")
    parser.add_argument("--warm-caches", action="store_true", help="let sides use the compiled "
                        "code that earlier runs left; else each begins with empty caches")
    parser.add_argument("--out", metavar="FILE.htr", type=Path, help="run file to write (else a "
                        "new one in HANDTORCH_RUNS); page and table lie beside it")


def run(args: Namespace, out: TextIO) -> int:
    """All of it into one run file, its page and a Markdown table; an interrupted run is kept."""
    from handtorch.bench.run import Request
    from handtorch.bench.run import run as compare_all
    from handtorch.record import RunWriter
    from handtorch.runtime.opencl.discover import choose

    request = Request(_wanted(args), tuple(filter(None, args.sides.split(","))), args.peers,
                      args.rounds, args.warm_caches)
    device = choose(args.device)
    path = args.out or fresh(f"bench-{args.task}")
    with ends_whole(path), RunWriter.create(path, _command(args, device.label)) as record:
        verdicts = compare_all(request, device, record, progress)
    table = _table(path)
    show(args, out, [table.read_text(encoding="utf-8"), _told(verdicts)], run_file=path,
         page=page_of(path), table=table)
    return EXIT_OK


def _wanted(args: Namespace) -> Wanted:
    """The models are known to the zoo, in forms that it has."""
    from handtorch.bench.cases import Wanted

    for named in args.models:
        model, _, form = named.partition(":")
        entry = entry_of(model, asked=f"handtorch bench {args.task} {named}", example=EXAMPLE)
        entry.batch(1, form, True)
    models = tuple(args.models)
    if not models and not args.quick and args.task in ("train", "infer", "memory"):
        models = _suite()
    return Wanted(args.task, models, args.batch, args.quick)


def _suite() -> tuple[str, ...]:
    """The nets of the training paper, with pictures of 32x32 pixels."""
    from handtorch.studies.training_cells import SUITE, form_of

    return tuple(f"{model}:{form}" if (form := form_of(model, 32)) else model for model in SUITE)


def _command(args: Namespace, label: str) -> str:
    words = ["handtorch bench", args.task, *args.models,
             f"--batch {args.batch}" if args.batch is not None else "",
             f"--sides {args.sides}" if args.sides else "", "--quick" if args.quick else "",
             "--warm-caches" if args.warm_caches else "", f"--device {label}"]
    return " ".join(filter(None, words))


def _table(path: Path) -> Path:
    from handtorch.record import read_run
    from handtorch.report import markdown
    from handtorch.store.atomic import write_atomically

    table = path.with_suffix(".md")
    write_atomically(table, markdown(read_run(path)).encode())
    return table


def _told(verdicts: list[Verdict]) -> str:
    return "".join(f"{v.question}\n{v.answer}\n" for v in verdicts)
