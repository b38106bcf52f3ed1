"""`handtorch profile MODEL`: where the time and the memory of a step go, on one clock."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from handtorch.cli.main import EXIT_OK
from handtorch.cli.of_zoo import add_list, entry_of, no_model, show_list
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.api.inference import Inference
    from handtorch.api.step import TrainStep
    from handtorch.profile.profile import Profile
    from handtorch.profile.sensing import Sensing
    from handtorch.record import Run

HELP = "Show where the time and the memory of a step go, launch by launch"
EXAMPLE = "handtorch profile HarLSTM --batch 32 --steps 50 --out har.htr"
COMMON = ("device", "quick")
_WARM_UP = 3
_CHECKED = 5
_PAIRS = 10
_QUICK_STEPS, _QUICK_PAIRS = 5, 9
_SAMPLE = "digits"
_NOT_KEPT = ("Nothing was kept: --out NAME.htr keeps it for `handtorch why` and `handtorch "
             "report`.\n")


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", metavar="MODEL|module:function|FILE.ht", help="a "
                        "model of the zoo (see --list); a function of yours that gives a step and "
                        "a batch for it; a saved step or model, or `digits`")
    add_list(parser)
    parser.add_argument("--form", default="", help="which of the model's forms; the first if not "
                        "named")
    parser.add_argument("--batch", metavar="N", type=int, default=16, help="rows (samples) of a "
                        "batch of a model of the zoo (16)")
    parser.add_argument("--steps", metavar="N", type=int, default=20, help="steps to record, after "
                        f"{_WARM_UP} that are not (20)")
    parser.add_argument("--pairs", metavar="N", type=int, default=_PAIRS, help="pairs of steps "
                        "with and without recording, to tell what it costs (10; quick: 9, the "
                        "fewest that tell it; 0: none)")
    parser.add_argument("--check", action="store_true", help="also run steps in which every launch "
                        "is waited for, to see whether the driver's event times are true")
    parser.add_argument("--torch", action="store_true", help="the same steps by torch on the CPU "
                        "too, in a process of its own, for a model of the zoo")
    parser.add_argument("--no-sensors", action="store_true", help="do not read the machine's "
                        "sensors meanwhile")
    parser.add_argument("--sheet", metavar="NAME|FILE.toml", help="estimate joules from a power "
                        "sheet (docs/sheets.md), such as nexus-5")
    parser.add_argument("--out", metavar="RUN.htr", type=Path, help="keep everything in a run file")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write a trace too: Chrome's "
                        "JSON if it ends in .json or .json.gz, else Perfetto's format")


@dataclass(frozen=True)
class Target:
    """What is profiled: a step, a batch for it, and what to call it."""

    step: TrainStep | Inference
    batch: Sequence[Any]
    name: str
    in_zoo: Mapping[str, Any] | None = None         # where torch's process finds the same


def run(args: Namespace, out: TextIO) -> int:
    """Warm up, record, measure what recording costs, and tell."""
    from handtorch.profile.profile import Profile
    from handtorch.record import to_json
    from handtorch.selftest import verdict

    if args.list:
        return show_list(args, out)
    if args.what is None:
        raise no_model("profile")
    steps, pairs = _counts(args)
    if args.out is not None and args.out.exists():
        raise BadInput(f"--out {args.out}", why="it already exists", fix="another name")
    sensing = _sensing(args)
    _progress(f"preparing {args.what}")
    target = _target(args)
    if args.torch and target.in_zoo is None:
        raise BadInput(f"--torch with {target.name}", why="it is not known as a function of torch",
                       fix="a model of the zoo; or ht.profile(function) in Python")
    taken = Profile(target.step.session, target.name, command=_command(args), sensing=sensing)
    taken.self_test = cast(Any, verdict(taken.context.found, run=False).state)
    _record(target, taken, steps, pairs)
    checked = _check(target, taken) if args.check else ""
    if args.torch:
        assert target.in_zoo is not None, "asked for above"
        _record_torch(target.in_zoo, taken, steps)
    if args.out is not None:
        taken.save(args.out)
    if args.trace is not None:
        write_trace(taken.run, args.trace)
    files = {"run_file": args.out, "trace": args.trace}
    if args.json:
        told = {k: str(v) for k, v in files.items() if v is not None}
        out.write(json.dumps({**told, **json.loads(to_json(taken.run))}) + "\n")
    else:
        out.write(f"{taken.table()}\n{answer(taken.run, args.torch)}{checked}")
        out.write("".join(f"{k.replace('_', ' '):<9} {v}\n" for k, v in files.items() if v)
                  or _NOT_KEPT)
    target.step.close()
    return EXIT_OK


def _sensing(args: Namespace) -> Sensing:
    from handtorch.place.sheet import read_sheet
    from handtorch.profile.sensing import Sensing

    sheet = None if args.sheet is None else read_sheet(args.sheet)
    return Sensing(sheet, samples=not args.no_sensors)


def answer(run: Run, torch: bool) -> str:
    """Why the first steps of the run are slow, and how well they are foretold."""
    from handtorch.profile import predict
    from handtorch.profile import why as reasons

    found = reasons.why(run, torch=run if torch else None)
    foretold = predict.of_run(run).get((found.subject, found.place))
    return "".join(f"{text}\n" for text in (
        reasons.told(found), *([] if foretold is None else [predict.told(foretold)])))


def write_trace(run: Run, path: Path) -> None:
    from handtorch.report import write_chrome, write_perfetto

    is_json = path.name.endswith((".json", ".json.gz"))
    (write_chrome if is_json else write_perfetto)(run, path)


def _counts(args: Namespace) -> tuple[int, int]:
    for name, least in (("steps", 1), ("batch", 1), ("pairs", 0)):
        if getattr(args, name) < least:
            raise BadInput(f"--{name} {getattr(args, name)}", why=f"it is {least} or more")
    if args.quick:
        return min(args.steps, _QUICK_STEPS), min(args.pairs, _QUICK_PAIRS)
    return args.steps, args.pairs


def _record(target: Target, taken: Profile, steps: int, pairs: int) -> None:
    """As a loop does it that asks for its loss at the end: the host runs ahead of the device."""
    def one() -> None:
        _waited(target.step(*target.batch))

    _progress(f"{_WARM_UP} steps to warm up")
    for _ in range(_WARM_UP):
        one()
    _progress(f"recording {steps} steps")
    with taken:
        for _ in range(steps):
            given = target.step(*target.batch)
        _waited(given)
    if pairs:
        _progress(f"{pairs} pairs of steps with and without recording")
        taken.audit(one, pairs)
    _progress("measuring the device's best rates")
    taken.peaks()


def _check(target: Target, taken: Profile) -> str:
    from handtorch.profile.check import told

    _progress(f"{_CHECKED} steps in which every launch is waited for")
    return f"{told(taken.check(lambda: _waited(target.step(*target.batch)), _CHECKED))}\n"


def _record_torch(asked: Mapping[str, Any], taken: Profile, steps: int) -> None:
    """In a process of its own, with nothing else under way: beside a driver's threads torch takes
    up to twice as long."""
    from handtorch import knobs
    from handtorch.baseline.fair import settle
    from handtorch.bench.process import MAKE_S, RUN_S, SideProcess
    from handtorch.profile import torch_alone
    from handtorch.record import read_run

    sensors = taken.sensing is not None and taken.sensing.samples
    with tempfile.TemporaryDirectory(prefix="handtorch-torch-") as name:
        file = Path(name, "torch.htr")
        _progress(f"{steps} steps by torch on the CPU, in a process of its own")
        settle()
        with SideProcess("torch", [sys.executable, "-m", torch_alone.__name__],
                         knobs.environment_for_child(), Path(name, "log")) as torch:
            made = _answered(torch.ask("make", MAKE_S, **asked, warm_up=_WARM_UP))
            most_s = RUN_S + 10 * steps * made["step_s"]
            _answered(torch.ask("record", most_s, name=taken.name, steps=steps, file=str(file),
                                first_id=len(taken.run.steps), sensors=sensors))
        taken.add(torch_alone.rows_beside(read_run(file), taken.run))


def _answered(told: Mapping[str, Any]) -> Mapping[str, Any]:
    if "error" in told:
        raise BadInput("the steps by torch", why=told["error"], fix="without --torch")
    return told


def _waited(given: Any) -> None:
    """Wait for what a step gave: a loss, several, or arrays."""
    results = given.values() if isinstance(given, dict) else given if isinstance(
        given, tuple) else (given,)
    for result in results:
        if hasattr(result, "numpy"):
            result.numpy()


def _target(args: Namespace) -> Target:
    if ":" in args.what:
        return _from_function(args)
    if args.what == _SAMPLE or args.what.endswith(".ht"):
        return _from_file(args)
    return _from_zoo(args)


def _from_zoo(args: Namespace) -> Target:
    entry = entry_of(args.what, asked=f"profile {args.what}",
                     example="one of these, FILE.ht, or module:function",
                     without_torch=", or a saved step: FILE.ht")
    from handtorch.api.make import train_step

    model, data = entry.make(args.form), entry.batch(args.batch, args.form)
    made = entry.optimizers(model)
    step = train_step(entry.step(model, made), models=[model], optimizers=made, example=data,
                      device=args.device, check_finite=False)
    form = f" {args.form}" if args.form else ""
    return Target(step, data, f"{args.what}{form} b{args.batch}",
                  {"model": args.what, "form": args.form, "batch": args.batch})


def _from_file(args: Namespace) -> Target:
    """A saved step or model on random numbers; indices and labels are 0, which all take."""
    import numpy as np

    from handtorch.api.load import load
    from handtorch.dtypes import dtype
    from handtorch.profile.profile import default_name
    from handtorch.store.sample import model_file

    path = model_file(args.what)
    step = load(path, args.device, check_finite=False)
    rng = np.random.default_rng(0)
    batch = [rng.normal(size=p.value.shape).astype("f4") if p.value.dtype == "f32"
             else np.zeros(p.value.shape, dtype(p.value.dtype).numpy)
             for p in step.session.graph.inputs]
    return Target(step, batch, f"{path.stem} {default_name(step.session)}")


def _from_function(args: Namespace) -> Target:
    """`module:function`, found from the folder one is in, gives a step and a batch for it."""
    from handtorch.runtime.session import Session

    module, _, function = args.what.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as e:
        raise BadInput(f"profile {args.what}", why=str(e),
                       fix="a module that Python finds from here, and a function in it") from e
    given = make(device=args.device) if args.device else make()
    pair = given if isinstance(given, tuple) and len(given) == 2 else (None, None)
    if not isinstance(getattr(pair[0], "session", None), Session):
        raise BadInput(f"{args.what} gives a {type(given).__name__}",
                       why="it is to give a step and a batch for it",
                       fix="return step, (x, y) with step = ht.train_step(...) or "
                           "ht.inference(...)")
    batch = pair[1] if isinstance(pair[1], tuple | list) else (pair[1],)
    return Target(cast("TrainStep | Inference", pair[0]), batch, args.what)


def _command(args: Namespace) -> str:
    words = ["handtorch profile", args.what, f"--form {args.form}" if args.form else "",
             f"--batch {args.batch}", f"--steps {args.steps}",
             f"--pairs {args.pairs}" if args.pairs != _PAIRS else "",
             f"--device {args.device}" if args.device else "", "--torch" if args.torch else "",
             "--check" if args.check else "",
             "--no-sensors" if args.no_sensors else "",
             f"--sheet {args.sheet}" if args.sheet else "",
             "--quick" if args.quick else ""]
    return " ".join(filter(None, words))


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
