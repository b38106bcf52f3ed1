from __future__ import annotations

import math

import numpy as np
import pytest

from handtorch.profile.energy.gauge import OpGauge, gauge
from handtorch.profile.energy.model import Ints, Series, Spans
from tests.profile.energy.small_world import signal


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def test_a_state_holds_until_the_next_reading() -> None:
    spans = Spans(("a", "b", "early", "empty", "hole"), ints(0, 0, 1, 2, 3, 4), np.zeros(6, int),
                  np.zeros(6, int), ints(5, 30, 12, 0, 20, 41), ints(15, 40, 14, 5, 20, 44),
                  ints(0), ints(50))
    series = Series(signal("gauge"), ints(5, 10, 35, 40, 45), np.zeros(5, int),
                    np.array([2.0, 4.0, 8.0, math.nan, 1.0]))
    assert gauge(spans, series) == (
        OpGauge("a", pytest.approx((5 * 2 + 5 * 4 + 5 * 4 + 5 * 8) / 20), 8.0),
        OpGauge("b", pytest.approx(4), 4.0),
        OpGauge("early", None, None), OpGauge("empty", None, None), OpGauge("hole", None, None))
