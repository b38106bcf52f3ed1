"""Case: a kernel on small data with the right answer beside it.

One case serves the self-test of a driver, the check under Oclgrind and the tests, so a kernel
cannot be in the catalog without being checked on every device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.graph.step import Step

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Launch `steps` on `given` (by value id) and `expected` (by value id) must come out.

    `tolerance` is relative to the largest expected magnitude: sums in another order differ."""

    name: str
    steps: tuple[Step, ...]
    given: Mapping[int, Array]
    expected: Mapping[int, Array]
    tolerance: float = 1e-5

    def error(self, got: Mapping[int, Array]) -> float:
        """The worst deviation in units of the tolerance; at most 1 is right.

        NaN is wrong unless it is expected, and a number is wrong where NaN is expected."""
        worst = 0.0
        for key, want in self.expected.items():
            have, known = got[key].astype("f8"), ~np.isnan(want)
            if (np.isnan(have) == known).any():
                return float("inf")
            scale = max(float(np.abs(want[known]).max(initial=0.0)), 1e-3)
            off = float(np.abs(have - want)[known].max(initial=0.0)) / scale
            worst = max(worst, off / self.tolerance if np.isfinite(off) else np.inf)
        return worst
