"""HandTorch: a step or a model captured here, or with `file` loaded from an .ht file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from handtorch.api.given import as_list
from handtorch.api.load import load, load_inference
from handtorch.bench.case import INFER_HT, TRAIN_HT, Asked
from handtorch.bench.side import Subject
from handtorch.runtime.choose import open_executor
from handtorch.store.tensors import Array


def ready(asked: Asked) -> None:
    """The driver is loaded, and torch where the step is captured here."""
    open_executor(asked.device)
    if not asked.options.get("file"):
        importlib.import_module("handtorch.zoo.started")


def make(asked: Asked) -> Subject:
    trains, batches = asked.case.task == "train", asked.batches()
    if asked.options.get("file"):
        path = asked.folder / (TRAIN_HT if trains else INFER_HT)
        loader: Any = load if trains else load_inference
        return Ours(lambda: loader(path, asked.device), batches)
    return Ours(_captured_here(asked, trains), batches)


def _captured_here(asked: Asked, trains: bool) -> Callable[[], Any]:
    """The torch model stands; the first run captures and compiles it."""
    from handtorch.api.make import inference, train_step
    from handtorch.bench.sides.torch_model import with_weights
    from handtorch.zoo.started import tensors

    begun, example = with_weights(asked), tensors(asked.batches()[0])
    if trains:
        return lambda: train_step(begun.call, models=[begun.model], optimizers=begun.optimizers,
                                  example=example, device=asked.device)
    return lambda: inference(begun.model, example=example, device=asked.device)


class Ours:
    """Steps are queued one after the other, and the last is waited for; a model's outputs are
    read each time."""

    def __init__(self, made: Callable[[], Any], batches: Sequence[tuple[Array, ...]]) -> None:
        self.version = f"handtorch {_version()}"
        self._made, self._batches = made, batches
        self._call: Any = None

    def once(self, number: int) -> Sequence[Array]:
        if self._call is None:
            self._call = self._made()
        given = as_list(self._call(*self._batches[number % len(self._batches)]))
        return [x if isinstance(x, np.ndarray) else np.array(float(x), "f4") for x in given]

    def run(self, count: int) -> None:
        assert self._call is not None, "the first results come before any time"
        given: Any = ()
        for i in range(count):
            given = self._call(*self._batches[i % len(self._batches)])
        for last in as_list(given):
            if not isinstance(last, np.ndarray):
                last.numpy()


def _version() -> str:
    try:
        return version("handtorch")
    except PackageNotFoundError:
        return "from a source tree"
