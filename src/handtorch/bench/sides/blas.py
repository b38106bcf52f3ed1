"""The products of NumPy's BLAS and of torch's, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handtorch.baseline.fair import Work
from handtorch.baseline.gemm import numpy_product, torch_product
from handtorch.bench.case import Asked
from handtorch.bench.side import Subject
from handtorch.store.tensors import Array


def make(asked: Asked) -> Subject:
    ((a, b),) = asked.batches()
    a, b = (x.T if flag == "t" else x for x, flag in zip((a, b), asked.case.form, strict=True))
    result = np.zeros(asked.case.sizes[:2], "f4")
    if asked.options["library"] == "numpy":
        return Product(f"numpy {np.__version__}", numpy_product(a, b, result), result)
    import torch

    torch.set_num_threads(asked.threads)
    return Product(f"torch {torch.__version__}", torch_product(a, b, result), result)


class Product:
    """A work that leaves its result in an array."""

    def __init__(self, version: str, work: Work, result: Array) -> None:
        self.version, self.run, self._result = version, work, result

    def once(self, number: int) -> Sequence[Array]:
        self.run(1)
        return [self._result.copy()]
