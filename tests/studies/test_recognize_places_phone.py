from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.place.radio import read_radio
from handtorch.place.sheet import read_sheet
from handtorch.studies.recognize_modes import DEVICE_CL, DEVICE_CPU, ModeRun
from handtorch.studies.recognize_places_phone import WAYS, Costs, Recorded, busy, device_runs
from handtorch.studies.recognize_published import SLOWER
from tests.cloud.scripted import photo, recognised

COSTS = Costs(read_sheet("nexus-5"), read_radio("lte"), 0.07)


def run(mode: str) -> ModeRun:
    return ModeRun("squeezenet", mode, tuple({"steps_ms": {"compute": ms}} for ms in (90., 10.,
                                                                                     12.)))


def test_the_phone_is_as_much_slower_as_the_paper_found(tmp_path: Path) -> None:
    picture = photo(tmp_path, 540, 960)
    first = Recorded(run(DEVICE_CL))(picture)
    assert first.steps_ms["compute"] == pytest.approx(11 * SLOWER[DEVICE_CL])
    for number, ms in enumerate((10, 12, 10)):
        one = Recorded(run(DEVICE_CL), number)(picture)
        assert one.steps_ms["compute"] == pytest.approx(ms * SLOWER[DEVICE_CL])
    assert first.steps_ms["rescale"] == pytest.approx(38, abs=1)
    assert first.end_to_end_ms == pytest.approx(first.sum_ms)


def test_what_it_draws_is_what_the_paper_measured(tmp_path: Path) -> None:
    """Table III's battery column less its idle power, for as long as it computes."""
    picture = photo(tmp_path, 540, 960)
    for mode, watts in ((DEVICE_CL, 2.96258 - 1.08124), (DEVICE_CPU, 3.24901 - 1.08124)):
        one = Recorded(run(mode))(picture)
        rescale_j = 1.468 * one.steps_ms["rescale"] / 1e3
        found = COSTS.joules(one, WAYS[mode], None) - rescale_j
        assert found / (one.steps_ms["compute"] / 1e3) == pytest.approx(watts, rel=0.15)
    assert busy(DEVICE_CPU)[1] == 0


def test_over_the_radio_alone_and_in_a_burst(tmp_path: Path) -> None:
    steps = {"rescale": 38.0, "compute": 10.0}
    one = recognised(photo(tmp_path), steps, 0, sent_bytes=30_000, whole_ms=38 + 10 + 70 + 43)
    alone, after = (COSTS.joules(one, "cloud, jpeg", since) for since in (None, 1.0))
    assert alone - after == pytest.approx(1.2107 * 0.2601 + 1.06 * 10.576, rel=1e-6)
    assert after > 1.06 + 0.038 * 1.468


def test_runs_by_the_phones_ways() -> None:
    found = device_runs([run(DEVICE_CL), run(DEVICE_CPU)], "squeezenet")
    assert list(found) == ["device OpenCL", "device CPU"] and not device_runs([run(DEVICE_CL)],
                                                                              "nin")
