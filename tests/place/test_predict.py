from __future__ import annotations

import pytest

from handtorch.errors import BadInput
from handtorch.place.predict import Rates, Software, Work, predict

RATES = Rates(flops_per_s=1e9, bytes_per_s=1e8, launch_s=1e-3, copy_s=2e-3, copy_bytes_per_s=1e6)
WORKS = (Work("conv3x3", 4e6, 1e5, 1e5), Work("pointwise", 0, 0, 4e5))


def test_the_formula_by_hand() -> None:
    """4 ms and 2 ms; 4 ms; two launches of 1 ms; a copy of 2 ms and 1 ms."""
    found = predict(WORKS, RATES, Software(), copies_bytes=(1000,))
    assert found.launches == 2 and found.launch_s == pytest.approx(2e-3)
    assert found.compute_s == pytest.approx(4e-3) and found.memory_s == pytest.approx(6e-3)
    assert found.copy_s == pytest.approx(3e-3)
    assert found.total_s == pytest.approx(15e-3) and found.bound == "memory"


def test_what_overlaps_takes_the_longer_of_the_two() -> None:
    assert predict(WORKS, RATES, Software(overlaps=True)).busy_s == pytest.approx(4e-3 + 4e-3)


def test_a_share_slows_its_kind_alone() -> None:
    found = predict(WORKS, RATES, Software({"conv3x3": 0.25}))
    assert found.compute_s == pytest.approx(16e-3) and found.memory_s == pytest.approx(6e-3)


def test_winograd_keeps_more_of_a_3x3_convolutions_weights() -> None:
    found = predict(WORKS, RATES, Software(winograd=True))
    assert found.memory_s == pytest.approx(6e-3 + 3e-3)


def test_half_a_processor_takes_twice_the_time_and_copies_stay() -> None:
    alone = predict(WORKS, RATES, Software(), (1000,))
    shared = predict(WORKS, RATES, Software(), (1000,), load=0.5)
    assert shared.total_s - shared.copy_s == pytest.approx(2 * (alone.total_s - alone.copy_s))
    assert shared.copy_s == alone.copy_s


@pytest.mark.parametrize("load", [-0.1, 1.0, float("nan")])
def test_a_load_is_a_share(load: float) -> None:
    with pytest.raises(BadInput, match="a load of"):
        predict(WORKS, RATES, Software(), load=load)


def test_nothing_takes_no_time() -> None:
    assert predict((), RATES, Software()).total_s == 0
