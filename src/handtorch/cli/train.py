"""`handtorch train FILE.ht`: go on training a saved step; needs NumPy and pyopencl, no torch."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.api.step import TrainStep

HELP = "Go on training a saved step on arrays; `digits` is one that ships with HandTorch"
EXAMPLE = "handtorch train digits --epochs 5 --lr 0.01 --out mine.ht"
COMMON = ("device",)


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.ht", help="a saved step, or `digits`")
    parser.add_argument("--data", metavar="FILE.npz",
                        help="arrays named as the step's inputs, or `digits`: 1437 pictures")
    parser.add_argument("--epochs", metavar="N", type=int, default=1, help="passes over the data")
    parser.add_argument("--lr", metavar="X", type=float,
                        help="learning rate of every parameter group (else as in the file)")
    parser.add_argument("--seed", metavar="S", type=int,
                        help="order of the rows, and random numbers anew from here (else the "
                             "step goes on with its own)")
    parser.add_argument("--memory", metavar="SIZE", help="hold no more than that on the device: "
                        "1GiB, 512MiB; values are made again instead of kept")
    parser.add_argument("--out", metavar="FILE.ht", type=Path,
                        help="keep the trained step; it may be the file itself")
    parser.add_argument("--programs", action="store_true", help="keep what was compiled in --out, "
                        "vouched for by your key; on PoCL that compiles everything once more")
    add_trust(parser)


def add_trust(parser: ArgumentParser) -> None:
    """The option of all commands that open a file of somebody's."""
    parser.add_argument("--trust-programs", action="store_true", help="run compiled programs in "
                        "the file whoever made them: only for one that you would run as a program")


def run(args: Namespace, out: TextIO) -> int:
    """Train, tell the mean loss of each epoch, and keep the step where asked."""
    from handtorch.api.load import load
    from handtorch.api.step import TrainStep
    from handtorch.store.atomic import check_writable
    from handtorch.store.sample import SAMPLE, data_of, inputs_of, model_file

    if args.epochs < 0:
        raise BadInput(f"--epochs {args.epochs}", why="one cannot train less than nothing")
    if args.programs and args.out is None:
        raise BadInput("--programs", why="there is no file to keep them in", fix="--out FILE.ht")
    name = args.data or (SAMPLE if args.file == SAMPLE else None)
    if name is None:
        raise BadInput("no data given", fix=f"`{EXAMPLE}`, or --data FILE.npz")
    if args.out is not None:
        check_writable(args.out)
    data = data_of(name)
    step = load(model_file(args.file), args.device, memory=args.memory,
                trust_programs=args.trust_programs)
    if not isinstance(step, TrainStep):
        raise BadInput(f"{args.file} holds a model and no training step",
                       fix="a file that was saved from a step; this one is for `handtorch infer`")
    inputs = inputs_of(data.arrays, [p.name for p in step.program.graph.inputs], name)
    _prepare(step, args)
    losses = _epochs(step, inputs, args)
    told = {"file": args.file, "device": step.device_name, "rows": len(inputs[0]),
            "epochs": args.epochs, "steps": step.steps, "losses": losses, **_tested(step, data),
            **_budget(step)}
    if args.out is not None:
        step.save(args.out, programs=args.programs)
        told["out"] = str(args.out)
    out.write(json.dumps(told) + "\n" if args.json else _text(told))
    step.close()
    return EXIT_OK


def _prepare(step: TrainStep, args: Namespace) -> None:
    if args.lr is not None:
        for group in range(len(step.rates)):
            step.set_rate(args.lr, group)
    if args.seed is not None:
        step.reseed(args.seed)


def _epochs(step: TrainStep, inputs: list[Any], args: Namespace) -> list[float]:
    """The mean of each epoch's first result. Losses are read when the epoch is queued."""
    losses = []
    for epoch in range(args.epochs):
        # Without a seed the order follows from the steps made so far: another in each epoch and
        # after each resumption, and the same again for the same file.
        seed = step.steps if args.seed is None else args.seed + epoch
        read = [float(_first(given)) for given in list(step.epoch(*inputs, seed=seed))]
        losses.append(sum(read) / len(read))
        sys.stderr.write(f"epoch {epoch + 1} of {args.epochs}: loss {losses[-1]:.4f}\n")
        sys.stderr.flush()
    return losses


def _budget(step: TrainStep) -> dict[str, Any]:
    """What the step holds and traded, where a budget was named."""
    if (found := step.fitted) is None:
        return {}
    return {"budget": {"memory_bytes": found.memory_bytes, "held_bytes": found.held_bytes,
                       "whole_bytes": found.whole_bytes, "slow_down": found.slow_down,
                       "times": found.times}}


def _first(given: Any) -> Any:
    """The loss of a step that gives one, or the first of several."""
    if isinstance(given, dict):
        given = tuple(given.values())
    if given is None or given == ():
        raise BadInput("the step gives no loss to tell", fix="a step that returns one")
    return given[0] if isinstance(given, tuple) else given


def _tested(step: TrainStep, data: Any) -> dict[str, float]:
    """The accuracy on rows kept for testing, where the data have some."""
    if not data.unseen:
        return {}
    model = step.inference()
    (scores,) = model.over(*(data.unseen[p.name] for p in model.program.graph.inputs))
    model.close()
    return {"accuracy": float((scores.argmax(1) == data.unseen["y"]).mean())}


def _text(told: Mapping[str, Any]) -> str:
    losses = told["losses"]
    epochs = f"{told['epochs']} epoch{'s' if told['epochs'] != 1 else ''}"
    lines = [f"{told['file']} on {told['device']}: {epochs} over {told['rows']} rows, "
             f"{told['steps']} steps in all"]
    if losses:
        lines.append(f"  loss {losses[0]:.4f} in the first, {losses[-1]:.4f} in the last")
    if "accuracy" in told:
        lines.append(f"  {told['accuracy']:.1%} right on rows it was not trained on")
    if "budget" in told:
        budget = told["budget"]
        lines.append(f"  holds {budget['held_bytes']:,} bytes of {budget['memory_bytes']:,} "
                     f"allowed ({budget['whole_bytes']:,} without a budget), predicted slow-down "
                     f"{budget['slow_down']:.2f}")
    lines.append(f"  kept in {told['out']}" if "out" in told else
                 "  not kept: --out FILE.ht keeps it")
    return "\n".join(lines) + "\n"
