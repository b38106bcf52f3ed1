"""Whether two sides computed the same, which is asked before their times are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from handtorch.kernels.case import Array

STEP1, LATER = 1e-5, 5e-2           # relative: the first losses must agree, later ones drift apart
OUTPUTS = 1e-4                      # of results that depend on no earlier run, to the largest one
_LEAST = 1e-6                       # a loss below that is not divided by


def losses_off(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
               ) -> tuple[float, ...]:
    """By step the worst relative difference of a loss. The first is of the same weights; the later
    ones carry on what rounding changed, which batch-norm over few samples enlarges."""
    return tuple(max(_relative(a, b) for a, b in zip(x, y, strict=True))
                 for x, y in zip(ours, theirs, strict=True))


def _relative(a: float, b: float) -> float:
    off = abs(a - b) / max(abs(b), _LEAST)
    return off if off == off else float("inf")          # NaN is as far off as can be


def losses_agree(found: Sequence[float]) -> bool:
    return bool(found) and found[0] <= STEP1 and all(d <= LATER for d in found[1:])


def outputs_off(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest difference of any number, relative to the largest number of its array; infinite
    where the arrays are not of the same shapes, or one is not finite."""
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        return float("inf")
    return max((_array_off(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


def _array_off(a: Array, b: Array) -> float:
    if not a.size:
        return 0.0
    off = float(np.abs(a.astype("f8") - b).max() / max(float(np.abs(b).max()), _LEAST))
    return off if off == off else float("inf")
