from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.record import Run
from handtorch.report.roofline import ARITHMETIC, MEMORY, rooflines, spots_of


@pytest.fixture
def rated(run: Run, result: Any) -> Run:
    best = tuple(result(study="profile", name=name, subject="Adreno", place="gpu", x_name="",
                        x_value=None, value=value, unit=unit)
                 for name, value, unit in ((ARITHMETIC, 100e9, "FLOP/s"), (MEMORY, 10e9, "B/s")))
    launches = tuple(replace(la, moved_bytes=400, work_reason="") for la in run.launches)
    return replace(run, results=best, launches=launches)


def test_each_operation_is_a_disc_under_the_roof(rated: Run, parse: Any) -> None:
    page = parse(rooflines(rated))
    said = [e.text for e in page.all("title") if "svg.wide" in e.inside]
    assert said == [
        "gemm in fc1: 10 GFLOP/s, backward, 5 FLOP/B, 60.6 % of the time",
        "gemm in fc1: 20 GFLOP/s, forward, 5 FLOP/B, 30.3 % of the time",
        "copy in fc1: 66.7 GFLOP/s, transfer, 5 FLOP/B, 9.1 % of the time"]
    assert [e.text for e in page.all("td")][4] == "20 %"       # of 10 GB/s x 5 FLOP/B
    assert len(page.all("path", "roof")) == 2


def test_what_computes_or_moves_nothing_has_no_place_there(rated: Run) -> None:
    idle = tuple(replace(la, flops=0) for la in rated.launches)
    assert spots_of(replace(rated, launches=idle), "gpu") == []
    assert rooflines(replace(rated, launches=idle)) == ""


def test_without_measured_best_rates_there_is_no_roof(rated: Run) -> None:
    assert rooflines(replace(rated, results=rated.results[:1])) == ""
