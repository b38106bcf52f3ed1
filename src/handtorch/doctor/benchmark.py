"""A few seconds of measuring: a product of matrices, memory, arithmetic, and a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from handtorch.baseline.fair import Plan, interleave, middle_half
from handtorch.graph.node import Value
from handtorch.kernels.gemm import matmul_steps
from handtorch.pipeline import with_tuned
from handtorch.profile.peaks import peak_rows
from handtorch.record import Result
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext

N = 512
SGEMM = f"SGEMM {N}"
# How the rows of `peak_rows` are called here.
NAMES = {"arithmetic peak": "arithmetic", "memory peak": "copy", "launch time": "launch"}
_PLAN = Plan(rounds=7, block_s=0.030, refuse_s=5.0)


def benchmark(on: OpenCLContext) -> Iterator[Result]:
    """Median and spread of each; SGEMM with the kernels that programs use here."""
    yield _sgemm(on)
    yield from peak_rows(on, "doctor", on.found.label)


def _sgemm(on: OpenCLContext) -> Result:
    a, b, c = (Value(i, (N, N)) for i in range(3))
    rng = np.random.default_rng(0)
    given = {v.id: rng.uniform(-1, 1, v.shape).astype("f4") for v in (a, b)}
    steps = matmul_steps(a, b, c, spec=with_tuned(on.spec),
                         new_value=lambda shape: Value(3, shape))
    bare = BareSteps(on, steps, given)

    def work(count: int) -> None:
        bare.enqueue(count)
        bare.finish()
    try:
        taken = interleave({SGEMM: work}, _PLAN)[SGEMM]
    finally:
        bare.close()
    rates = [2 * N**3 / s for s in taken.seconds]
    return Result(study="doctor", name=SGEMM, subject=on.spec.name,
                  value=float(np.median(rates)) if rates else None, value_reason=taken.refused,
                  unit="FLOP/s", better="higher", repeats=len(rates),
                  spread=middle_half(rates) if len(rates) > 1 else None, provenance="measured")
