"""The CPU's own matrix products: NumPy's BLAS and torch's."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from handtorch.baseline.fair import Work
from handtorch.kernels.case import Array


def numpy_product(a: Array, b: Array, into: Array | None = None) -> Work:
    """`a b` into the same array each time, by NumPy's BLAS with all its threads."""
    c = np.empty((a.shape[0], b.shape[1]), a.dtype) if into is None else into

    def work(count: int) -> None:
        for _ in range(count):
            np.dot(a, b, out=c)
    return work


def has_torch() -> bool:
    return find_spec("torch") is not None


def torch_product(a: Array, b: Array, into: Array | None = None) -> Work:
    """`a b` into the same tensor each time, by torch's BLAS with all its threads."""
    import torch

    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    tc = torch.empty((a.shape[0], b.shape[1])) if into is None else torch.from_numpy(into)

    def work(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                torch.mm(ta, tb, out=tc)
    return work
