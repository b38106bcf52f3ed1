"""A place in a process of its own: pinned before anything is made, heard when it fails."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from handtorch.errors import BadInput, DeviceError
from handtorch.offload.apart import Apart

HERE = "tests.offload.test_apart"


def make(times: float) -> Callable[..., object]:
    """In the child: multiplies, tells of its cores, or fails."""
    cores = os.sched_getaffinity(0)                 # those at the time of making

    def call(x: object) -> object:
        if isinstance(x, np.ndarray):
            return x * times
        if x == "cores":
            return sorted(cores)
        if x == "end":
            os._exit(3)
        raise ValueError("no such batch")
    return call


def test_calls_cross_and_the_child_stays_on_its_cores() -> None:
    core = max(os.sched_getaffinity(0))
    x = np.arange(200_000, dtype="f4").reshape(2, -1)
    with Apart(f"{HERE}:make", {"times": 3}, cores=(core,)) as place:
        np.testing.assert_array_equal(place(x), 3 * x)
        assert place("cores") == [core]
        assert place.used_s() > 0


def test_an_error_there_is_one_here(capfd: pytest.CaptureFixture[str]) -> None:
    with Apart(f"{HERE}:make", {"times": 1}) as place:
        with pytest.raises(DeviceError) as raised:
            place("fail")
        assert raised.value.message() == f"the process of {HERE}:make: ValueError: no such batch"
    assert "no such batch" in capfd.readouterr().err, "and its traceback"
    with Apart(f"{HERE}:make", {"times": 1}) as place:
        with pytest.raises(DeviceError) as raised:
            place("end")
        assert raised.value.why == "it has ended; standard error says why"
        assert place.ended


def test_cores_that_are_not_ours() -> None:
    with pytest.raises(BadInput) as raised:
        Apart(f"{HERE}:make", {"times": 1}, cores=(10**6,))
    assert raised.value.what == "cores [1000000]"
