"""A torch module as a function of NumPy arrays, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from handtorch.errors import BadInput
from handtorch.kernels.case import Array


def torch_call(model: torch.nn.Module, threads: int | None = None) -> Callable[[Array], Array]:
    """`model` in eval mode without gradients. `threads`, if given, holds for the whole process."""
    if threads is not None:
        torch.set_num_threads(threads)
    model.eval()

    def call(x: Array) -> Array:
        with torch.inference_mode():
            scores: Array = model(torch.from_numpy(x)).numpy()
        return scores
    return call


def torch_calls(model: torch.nn.Module) -> Callable[[tuple[Array, ...]], tuple[Array, ...]]:
    """`model` in eval mode without gradients, with any number of inputs and outputs."""
    model.eval()

    def call(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        try:
            with torch.inference_mode():
                given = model(*(torch.from_numpy(x) for x in arrays))
        except IndexError as e:         # a word or a class that the model has no row for
            raise BadInput("the model cannot take this input", why=str(e)) from e
        parts = given.values() if isinstance(given, dict) else (
            given if isinstance(given, tuple | list) else (given,))
        return tuple(part.numpy() for part in parts)
    return call
