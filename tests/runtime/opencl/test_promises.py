"""Promises: one that was broken is told once, when its step is known to be done."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.errors import BadInput
from handtorch.runtime.opencl.promises import NUMBERS, Promises


def test_a_kept_promise_is_forgotten_and_a_broken_one_told_once() -> None:
    promises, arrays = Promises(), [np.arange(1000.0, dtype="f4") for _ in range(4)]
    arrays[0][7] = np.nan
    for step, array in enumerate(arrays):
        promises.note(step, f"x{step}", array)
    promises.look(0)
    arrays[0] += 1                          # after its step
    promises.look(0)
    arrays[2] += 1
    promises.look(1)
    with pytest.raises(BadInput) as e:
        promises.look(3)
    assert e.value.message() == (
        "input x2 changed while step 2 was reading it: it was lent, and written to before the step "
        "was done: its loss and all that follows may be wrong\n"
        "  try: read a loss before filling its batch anew, or give step(x.clone(), ...) if it is "
        "filled through an address that torch does not know of")
    promises.look(3)


@pytest.mark.parametrize("size", [1, NUMBERS - 1, NUMBERS, 2 * NUMBERS + 1, 100_003])
def test_all_of_a_small_array_and_all_along_a_large_one_is_looked_at(size: int) -> None:
    for at in {0, size // NUMBERS * min(size - 1, NUMBERS - 1)}:
        promises, array = Promises(), np.zeros(size, "f4")
        promises.note(0, "x", array)
        array[at] = 1
        with pytest.raises(BadInput, match="input x changed"):
            promises.look(0)
