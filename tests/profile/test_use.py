"""What was used: sums of rails that do not count a part twice, and estimates called so."""

from __future__ import annotations

import numpy as np
import pytest

from handtorch.meters.signal import FAST_NS, Signal
from handtorch.meters.used import Span, resident_bytes
from handtorch.place.sheet import read_sheet
from handtorch.profile.energy.model import Series
from handtorch.profile.sampled import Readings, Troubles
from handtorch.profile.use import Joules, Meter

SPAN = Span(1_000_000_000, 3_000_000_000, 1_000_000_000, None, 1)


def series(meter: str, quantity: str, kind: str, values: list[float], parent: str = "") -> Series:
    at = np.arange(len(values), dtype=np.int64) * 1_000_000_000
    return Series(Signal(meter, quantity, kind, "machine", FAST_NS, parent=parent),  # type: ignore[arg-type]
                  at, np.zeros(len(values), np.int64), np.array(values))


def read(*found: Series) -> Meter:
    meter = Meter(read_sheet("nexus-5"))
    meter.readings = Readings(found, Troubles(), "process")
    return meter


def test_a_counter_and_a_power_give_the_same_joules() -> None:
    counter = read(series("rapl", "package_energy_j", "counter", [0, 5, 10, 15, 20]))
    power = read(series("ina3221", "vdd_in_power_w", "instant", [5, 5, 5, 5, 5]))
    for meter in (counter, power):
        found = meter.joules(SPAN)
        assert (found.total, found.provenance) == (pytest.approx(10), "measured")
        assert found.mean_w(SPAN.seconds) == pytest.approx(5)
        assert found.mwh == pytest.approx(10 / 3.6)


def test_a_part_is_not_counted_beside_its_whole_nor_a_second_meter() -> None:
    found = read(series("rapl", "package_energy_j", "counter", [0, 5, 10, 15, 20]),
                 series("rapl", "package_core_energy_j", "counter", [0, 4, 8, 12, 16],
                        "package_energy_j"),
                 series("battery", "power_w", "instant", [7] * 5)).joules(SPAN)
    assert (found.total, found.how) == (pytest.approx(14), "battery power_w")


def test_readings_must_lie_on_both_sides() -> None:
    found = read(series("battery", "power_w", "instant", [7, 7, 7])).joules(SPAN)
    assert found.total is None and found.how == "battery power_w: not read before and after"


def test_without_a_sensor_a_sheet_estimates() -> None:
    """Half a core for two seconds: idle and half of a core's power."""
    found = read().joules(SPAN)
    assert (found.total, found.provenance) == (pytest.approx(2 * (1.079 + 0.5 * 1.468)),
                                               "estimated")
    gpu = Span(0, 10**9, 0, 500_000_000, 1)
    assert read().joules(gpu, gpu=True).total == pytest.approx(1.079 + 0.5 * 2.816)
    assert read().joules(gpu).total == pytest.approx(1.079)


def test_without_both_it_is_unknown() -> None:
    with Meter(sensors=False) as meter:
        pass
    assert meter.joules(SPAN) == Joules(None, "unknown", "sensors were not read")


def test_memory_of_this_process() -> None:
    assert resident_bytes() > 10e6
