"""PyTorch on the CPU: eager, or with `compiled` through torch.compile (inductor)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from handtorch.baseline.torch_call import torch_calls
from handtorch.bench.case import Asked
from handtorch.bench.side import Subject
from handtorch.store.tensors import Array
from handtorch.zoo.started import Started, started, tensors


def make(asked: Asked) -> Subject:
    torch.set_num_threads(asked.options.get("threads", asked.threads))
    begun = with_weights(asked)
    compiled = bool(asked.options.get("compiled"))
    if asked.case.task == "train":
        return Training(begun, compiled, asked.batches())
    return Inferring(begun.model, compiled, asked.batches())


def with_weights(asked: Asked) -> Started:
    """The zoo's model and step, with the weights that were handed over."""
    case = asked.case
    begun = started(case.model, case.form, small=case.small)
    begun.model.load_state_dict({n: torch.tensor(a) for n, a in asked.weights().items()})
    return begun


class Training:
    """The zoo's step as users write it; with `compiled` torch.compile gets all of it, the loss,
    the way back and the update, and cuts it where it must."""

    def __init__(self, begun: Started, compiled: bool, batches: Sequence[Sequence[Array]]) -> None:
        call: Callable[..., Any] = torch.compile(begun.call) if compiled else begun.call
        self.version = f"torch {torch.__version__}"
        self._begun = Started(begun.model, begun.optimizers, call)
        self._arrays, self._batches = batches, [tensors(batch) for batch in batches]

    def once(self, number: int) -> Sequence[Array]:
        losses = self._begun.losses(self._arrays[number % len(self._arrays)])
        return [np.array(loss, "f4") for loss in losses]

    def run(self, count: int) -> None:
        for i in range(count):
            self._begun.call(*self._batches[i % len(self._batches)])


class Inferring:
    def __init__(self, model: torch.nn.Module, compiled: bool,
                 batches: Sequence[tuple[Array, ...]]) -> None:
        self.version = f"torch {torch.__version__}"
        if compiled:
            model.compile()
        self._call = torch_calls(model)
        self._batches = batches

    def once(self, number: int) -> Sequence[Array]:
        return self._call(self._batches[number % len(self._batches)])

    def run(self, count: int) -> None:
        for i in range(count):
            self._call(self._batches[i % len(self._batches)])
