"""The plain NumPy loop, and its process with one thread."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.baseline.numpy_lstm import OneThread, cell_loop
from handtorch.errors import HandTorchError
from handtorch.kernels.lstm import exact_scores
from handtorch.kernels.lstm_weights import random_weights


def test_the_loop_and_its_process_give_the_exact_scores() -> None:
    weights = random_weights(6, 2)
    windows = np.random.default_rng(0).normal(0, 1, (3, 4, 9)).astype("f4")
    exact = exact_scores(weights, windows.swapaxes(0, 1))
    found = cell_loop(weights, windows)
    assert found.dtype == "f4"
    np.testing.assert_allclose(found, exact, atol=1e-6)
    child = OneThread(weights)
    try:
        np.testing.assert_allclose(child.scores(windows, 2), exact, atol=1e-6)
    finally:
        child.close()


def test_a_child_that_ends_is_told_of() -> None:
    child = OneThread(random_weights(2, 1))
    child._child.kill()
    with pytest.raises(HandTorchError) as ended:
        for _ in range(3):                  # the pipe may take one more question
            child.scores(np.zeros((1, 2, 9), "f4"))
    child.close()
    assert str(ended.value) == ("the single-threaded NumPy process ended: its exit code is -9\n"
                                "  try: enough free memory for one more Python process")
