"""HandTorch's own products: the launches that lowering picks for a shape, on buffers of their own.

The kernels alone, queued one after the other; nothing crosses between host and device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from handtorch.bench.case import Asked
from handtorch.bench.side import Subject
from handtorch.graph.node import Value
from handtorch.kernels.gemm import matmul_steps
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.store.tensors import Array


def make(asked: Asked) -> Subject:
    return OurProduct(asked, OpenCLExecutor(choose(asked.device)))


class OurProduct:
    def __init__(self, asked: Asked, on: OpenCLExecutor) -> None:
        self.version = f"OpenCL {on.spec.driver}"
        self._asked, self._on = asked, on
        self._made: BareSteps | None = None
        self._c = Value(2, asked.case.sizes[:2])

    def _bare(self) -> BareSteps:
        """Compiled at the first call."""
        if self._made is None:
            ((a, b),), form = self._asked.batches(), self._asked.case.form
            more = count(3)
            steps = matmul_steps(Value(0, a.shape), Value(1, b.shape), self._c, ta=form[0] == "t",
                                 tb=form[1] == "t", spec=self._on.spec,
                                 new_value=lambda shape: Value(next(more), shape))
            self._made = BareSteps(self._on, steps, {0: a, 1: b})
        return self._made

    def once(self, number: int) -> Sequence[Array]:
        self.run(1)
        return [self._bare().read(self._c)]

    def run(self, count: int) -> None:
        self._bare().enqueue(count)
        self._bare().finish()
