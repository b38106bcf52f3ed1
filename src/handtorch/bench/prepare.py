"""What all sides of a case are given, written to its folder by a process with torch.

    python -m handtorch.bench.prepare '{"case": ..., "folder": ...}'

    weights.safetensors     the model's state_dict, from a fixed seed, nothing dropped out
    batches.safetensors     a few different batches
    expected.safetensors    what torch gives for the first of them, in float32, eager
    train.ht, infer.ht      the captured step or model
    layers.json             the model as a list of layers, or why it is none

Files are data: nothing is pickled. Prints one line of JSON, {"error": ...} where it is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from handtorch.bench.case import (
    BATCHES,
    CHECKED,
    EXPECTED,
    GIVEN,
    INFER_HT,
    LAYERS,
    TRAIN_HT,
    WEIGHTS,
    Asked,
    Case,
    write_calls,
)
from handtorch.errors import BadInput, HandTorchError
from handtorch.runtime.lifetime import end_with_parent
from handtorch.store.tensors import Array, write_tensors

SEED = 0


def main(text: str) -> None:
    end_with_parent()
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = Asked.from_json(json.loads(text))
    told: dict[str, str] = {}
    try:
        prepare(asked)
    except HandTorchError as e:
        told = {"error": e.message().splitlines()[0]}
    private.write(json.dumps(told) + "\n")
    private.flush()


def prepare(asked: Asked) -> None:
    """The files of this case are in its folder afterwards."""
    if asked.case.task == "product":
        _product(asked)
    else:
        _model(asked)


def _product(asked: Asked) -> None:
    m, n, k = asked.case.sizes
    rng = np.random.default_rng(SEED)
    shapes = [(m, k), (k, n)]
    turned = [flag == "t" for flag in asked.case.form]
    a, b = (rng.uniform(-1, 1, shape[::-1] if flag else shape).astype("f4")
            for shape, flag in zip(shapes, turned, strict=True))
    write_calls(asked.folder / GIVEN, [(a, b)])
    exact = [(x.T if flag else x).astype("f8") for x, flag in zip((a, b), turned, strict=True)]
    result = (exact[0] @ exact[1]).astype("f4")
    write_calls(asked.folder / EXPECTED, [(result,)] * CHECKED)


def _model(asked: Asked) -> None:
    from handtorch.zoo.registry import MODELS
    from handtorch.zoo.started import started

    case, folder = asked.case, asked.folder
    entry, begun = MODELS[case.model], started(case.model, case.form, small=case.small, seed=SEED)
    batches = [entry.batch(case.batch, case.form, case.small, seed=SEED + i)
               for i in range(BATCHES)]
    if case.task == "infer":
        batches = [entry.inputs(batch) for batch in batches]
    given = [tuple(np.ascontiguousarray(t.numpy()) for t in batch) for batch in batches]
    write_tensors(folder / WEIGHTS, {n: t.numpy() for n, t in begun.model.state_dict().items()},
                  {})
    write_calls(folder / GIVEN, given)
    _layers(asked, entry, begun)
    _capture(case, folder, begun, batches[0])
    # Last: this trains the model.
    write_calls(folder / EXPECTED, _expected(case, begun, given))


def _layers(asked: Asked, entry: Any, begun: Any) -> None:
    from handtorch.zoo.layers import layer_list

    try:
        told = layer_list(entry, begun.model, begun.optimizers)
    except BadInput as e:
        told = {"why": e.message().splitlines()[0]}
    (asked.folder / LAYERS).write_text(json.dumps(told))


def _capture(case: Case, folder: Any, begun: Any, example: Sequence[Any]) -> None:
    from handtorch.capture.step import capture_inference, capture_user_step
    from handtorch.store.ht_file import HtFile, Part, write_ht

    if case.task == "train":
        made = capture_user_step(begun.call, [begun.model], begun.optimizers, example)
        held = HtFile(Part(made.graph, made.outputs), None, made.states, made.homes, 0)
        write_ht(folder / TRAIN_HT, held)
    else:
        made = capture_inference(begun.model, example)
        held = HtFile(None, Part(made.graph, made.outputs), made.states, made.homes, 0)
        write_ht(folder / INFER_HT, held)


def _expected(case: Case, begun: Any, given: Sequence[tuple[Array, ...]]
              ) -> list[tuple[Array, ...]]:
    if case.task == "train":
        return [tuple(np.array(loss, "f4") for loss in begun.losses(batch))
                for batch in given[:CHECKED]]
    from handtorch.baseline.torch_call import torch_calls

    call = torch_calls(begun.model)
    return [call(batch) for batch in given[:CHECKED]]


if __name__ == "__main__":
    main(sys.argv[1])
