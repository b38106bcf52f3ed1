"""A batch over two places: the same answer as from one, shares as their speeds are."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import handtorch as ht
from handtorch.errors import BadInput
from handtorch.offload import split
from handtorch.offload.har import device_har, windows
from handtorch.offload.place import Place
from handtorch.offload.split import Array


class Clock(threading.local):
    """Stands in for the module `time`: each thread's own, so that a place's time is what the test
    says, however busy the machine is."""

    now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


def paced(clock: Clock, unit_s: list[float], k: int) -> Callable[[Array], Array]:
    def call(x: Array) -> Array:
        clock.now_s += unit_s[k] * len(x) / 2
        return x * 2
    return call


def test_rows_come_back_in_order_and_the_ratio_is_found_and_followed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(split, "time", clock)
    unit_s = [0.001, 0.003]
    x = np.arange(32.0)
    with ht.split([Place("a", paced(clock, unit_s, 0)), Place("b", paced(clock, unit_s, 1))],
                  unit=2) as both:
        for _ in range(10):
            np.testing.assert_array_equal(both(x), 2 * x)
        assert both.ratio[0] == pytest.approx(0.75)
        assert [share.rows for share in both.last] == [24, 8]
        unit_s[:] = [0.003, 0.001]
        for _ in range(10):
            both(x)
        assert both.ratio[0] == pytest.approx(0.25, abs=0.05)
        # A single unit goes to the quicker one, and an odd number of rows to both.
        np.testing.assert_array_equal(both(x[:1]), 2 * x[:1])
        assert [share.rows for share in both.last] == [0, 1]
        np.testing.assert_array_equal(both(x[:27]), 2 * x[:27])
        assert sum(part.value or 0 for part in both.rows() if part.TABLE == "result"
                   and hasattr(part, "value")) == pytest.approx(100)


def test_two_halves_of_a_device_give_the_bits_of_one(pocl: str) -> None:
    parts = [device_har(8, f"{pocl}/{k}-of-2") for k in range(2)]
    x = windows(48 + 3)
    with ht.split([Place("0", parts[0]), Place("1", parts[1])], unit=8) as both:
        for _ in range(3):
            y = both(x)
        assert all(share.rows for share in both.last), "both had something to do"
    np.testing.assert_array_equal(y, parts[0](x))


def test_what_cannot_be_split() -> None:
    with pytest.raises(BadInput) as raised:
        ht.split([Place("a", abs)], unit=8)
    assert raised.value.message().startswith("a split over a in units of 8: it takes two places or")
    with ht.split([Place("a", abs), Place("b", abs)], unit=8) as both:
        with pytest.raises(BadInput) as raised:
            both(np.zeros((0, 3)))
        assert "there are no rows in it" in str(raised.value)
        with pytest.raises(BadInput) as raised:
            _ = both.ratio
        assert str(raised.value) == "no ratio is known yet\n  try: call it first"


@pytest.fixture(scope="module")
def pocl() -> str:
    """A device that can be divided into two parts."""
    from handtorch.runtime.opencl.discover import find_devices
    for device in find_devices():
        if device.facts.sub_devices and device.spec.compute_units >= 2 and device.facts.by_default:
            return device.short
    pytest.skip("no device here can be divided into two parts")
