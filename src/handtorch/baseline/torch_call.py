"""A torch module as a function of NumPy arrays, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

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
