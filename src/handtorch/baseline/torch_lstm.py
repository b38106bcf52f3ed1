"""PyTorch's own inference on the CPU with a set number of threads."""

from __future__ import annotations

import numpy as np
import torch

from handtorch.kernels.case import Array


class TorchScores:
    """`model` in eval mode; each call computes with `threads` threads, 0 for as many as torch had.

    Closing it gives torch back the threads it had before."""

    def __init__(self, model: torch.nn.Module, threads: int = 0) -> None:
        self._model, self._before = model.eval(), torch.get_num_threads()
        self.threads = threads or self._before

    def scores(self, windows: Array) -> Array:
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        with torch.inference_mode():
            return np.asarray(self._model(torch.from_numpy(windows)).numpy())

    def close(self) -> None:
        torch.set_num_threads(self._before)
