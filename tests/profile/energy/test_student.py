from __future__ import annotations

import math

import pytest

from handtorch.profile.energy.student import t975


@pytest.mark.parametrize("freedom, value", [
    (1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (1e9, 1.960)])
def test_the_printed_table(freedom: float, value: float) -> None:
    assert t975(freedom) == pytest.approx(value, rel=0.02 if freedom < 4 else 1e-3)


def test_without_freedom_nothing_is_known() -> None:
    assert t975(0.5) == math.inf
