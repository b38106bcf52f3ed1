from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.zoo.data.pictures import resized


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30), st.integers(0, 255))
def test_what_is_even_stays_even(old: int, wide: int, new: int, value: int) -> None:
    grey = np.full((2, 3, old, wide), value, np.uint8)
    assert (resized(grey, new, new) == value).all()
    assert resized(grey, new, new).shape == (2, 3, new, new)


def test_growing_by_two_is_bilinear_and_shrinking_keeps_the_mean() -> None:
    row = np.array([[0, 100]], np.uint8)
    assert resized(row, 1, 4).tolist() == [[0, 25, 75, 100]]
    noise = np.random.default_rng(0).integers(0, 256, (1, 64, 64), np.uint8)
    small = resized(noise, 16, 16)
    assert abs(float(small.mean()) - float(noise.mean())) < 2       # of 255
    assert small.std() < noise.std() / 2                            # averaged, not picked
