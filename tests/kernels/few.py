"""A few cases of every kernel: what the quick tests run; the slow ones run all."""

from __future__ import annotations

from collections import Counter

from handtorch.kernels.case import Case
from handtorch.kernels.catalog import all_cases

FEW = 2                             # of a kernel


def a_few() -> tuple[Case, ...]:
    """The first cases of every kernel."""
    seen, cases = Counter[str](), []
    for case in all_cases():
        kernels = {s.kernel for s in case.steps}
        if any(seen[k] < FEW for k in kernels):
            seen.update(kernels)
            cases.append(case)
    return tuple(cases)
