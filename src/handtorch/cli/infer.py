"""`handtorch infer FILE.ht`: a saved model over arrays; needs NumPy and pyopencl, no torch."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.cli.train import add_trust

HELP = "Run a saved model over arrays; `digits` is a trained one that ships with HandTorch"
EXAMPLE = "handtorch infer digits"
COMMON = ("device",)


def add_args(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.ht", help="a saved step or model, or `digits`")
    parser.add_argument("--data", metavar="FILE.npz",
                        help="arrays named as the model's inputs, and labels as y if there are "
                             "any; or `digits`: 360 pictures of which the shipped model saw none")
    parser.add_argument("--out", metavar="FILE.npz", type=Path, help="keep the model's outputs")
    add_trust(parser)


def run(args: Namespace, out: TextIO) -> int:
    """The model over all rows; says how many labels it met, if the data have any."""
    from handtorch.api.load import load_inference
    from handtorch.errors import BadInput
    from handtorch.store.sample import SAMPLE, data_of, inputs_of, model_file

    name = args.data or (SAMPLE if args.file == SAMPLE else None)
    if name is None:
        raise BadInput("no data given", fix=f"{EXAMPLE}, or --data FILE.npz")
    data = data_of(name)
    arrays = data.unseen or data.arrays
    model = load_inference(model_file(args.file), args.device,
                           trust_programs=args.trust_programs)
    inputs = inputs_of(arrays, [p.name for p in model.program.graph.inputs], name)
    given = model.over(*inputs)
    outputs = {port.name: array for port, array in
               zip(model.program.graph.outputs, given, strict=True)}
    told = {"file": args.file, "device": model.device_name, "rows": len(inputs[0]),
            "outputs": {n: {"dtype": a.dtype.name, "shape": list(a.shape)}
                        for n, a in outputs.items()},
            **_judged(outputs, arrays)}
    if args.out is not None:
        _keep(args.out, outputs)
        told["out"] = str(args.out)
    out.write(json.dumps(told) + "\n" if args.json else _text(told))
    model.close()
    return EXIT_OK


def _judged(outputs: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """How many labels were met, where the one output has a score for each class."""
    scores, labels = next(iter(outputs.values())), arrays.get("y")
    if labels is None or scores.ndim != 2 or labels.shape != scores.shape[:1]:
        return {}
    right = int((scores.argmax(1) == labels).sum())
    return {"right": right, "accuracy": right / len(labels)}


def _keep(path: Path, outputs: Mapping[str, Any]) -> None:
    import numpy as np

    from handtorch.errors import StorageError
    try:
        with path.open("wb") as file:
            np.savez(file, **outputs)
    except OSError as e:
        raise StorageError(f"{path} cannot be written", why=str(e.strerror),
                           fix="make room, or choose a folder you may write to") from e


def _text(told: Mapping[str, Any]) -> str:
    lines = [f"{told['file']} on {told['device']}: {told['rows']} rows"]
    lines += [f"  {name}: {a['dtype']}{a['shape']}" for name, a in told["outputs"].items()]
    if "accuracy" in told:
        lines.append(f"  {told['right']} of {told['rows']} labels met, {told['accuracy']:.1%}")
    if "out" in told:
        lines.append(f"  kept in {told['out']}")
    return "\n".join(lines) + "\n"
