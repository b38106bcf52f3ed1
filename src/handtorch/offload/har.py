"""The activity-recognition LSTM as places: ours on an OpenCL device, torch's on the CPU.

Both have the same weights for the same seed. These are makers for `Apart`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.make import inference
from handtorch.baseline.torch_call import torch_call
from handtorch.zoo.har import SIGNALS, STEPS, seeded

Array = NDArray[Any]
Call = Callable[[Array], Array]


def windows(rows: int, seed: int = 0) -> Array:
    """Generated readings; how long an LSTM takes does not depend on what they say."""
    return np.random.default_rng(seed).normal(size=(rows, STEPS, SIGNALS)).astype("f4")


def device_har(batch: int, device: str, *, hidden: int = 32, layers: int = 2,
               seed: int = 0) -> Call:
    """Scores of any number of windows, `batch` of them at a time."""
    infer = inference(seeded(hidden, layers, seed), example=(windows(batch),), device=device)
    return lambda x: infer.over(x)[0]


def torch_har(*, threads: int | None = None, hidden: int = 32, layers: int = 2,
              seed: int = 0) -> Call:
    """Scores of any number of windows, all at once; `threads` None leaves torch its own."""
    return torch_call(seeded(hidden, layers, seed), threads)
