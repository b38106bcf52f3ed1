"""What `make aarch64` says of losses that agree, that do not, and that are no numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dev.aarch64 import Row, rows_of, runs_of, table


def record(machine: str, **losses: list[float]) -> dict[str, Any]:
    runs = [{"file": "net", "device": device, "name": f"a {device}", "losses": told}
            for device, told in losses.items()]
    return {"machine": machine, "python": "3.11.2", "numpy": "1.24.2", "pyopencl": "2022.3.1",
            "torch": machine == "x86_64", "runs": runs}


def test_the_table_has_every_place_and_the_largest_difference() -> None:
    records = [record("x86_64", ref=[2.0, 1.5], intel=[2.0, 1.50001]),
               record("aarch64", ref=[2.0, 1.5], pocl=[2.0, 1.4998])]
    rows = rows_of([run for told in records for run in runs_of(told)])
    assert [row.agrees for row in rows] == [True, False]
    assert table(records, rows).splitlines() == [
        "x86_64: Python 3.11.2, NumPy 1.24.2, pyopencl 2022.3.1, with torch",
        "  x86_64 ref: a ref",
        "  x86_64 intel: a intel",
        "aarch64: Python 3.11.2, NumPy 1.24.2, pyopencl 2022.3.1, no torch",
        "  aarch64 ref: a ref",
        "  aarch64 pocl: a pocl",
        "",
        "file         step     x86_64 ref   x86_64 intel    aarch64 ref   aarch64 pocl     apart",
        "net             1      2.0000000      2.0000000      2.0000000      2.0000000   0.0e+00",
        "net             2      1.5000000      1.5000100      1.5000000      1.4998000   2.1e-04"
        "  more than 0.0001",
        "1 of 2 steps agree to 0.0001; at most 2.1e-04 apart",
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_agrees(bad: float) -> None:
    """NaN everywhere is equal everywhere, and wrong."""
    assert not Row("net", 1, (bad, bad)).agrees
    assert not Row("net", 1, (1.0, bad)).agrees


def test_a_place_that_stopped_early_is_not_left_out() -> None:
    records = [record("x86_64", ref=[2.0, 1.5]), record("aarch64", ref=[2.0])]
    with pytest.raises(ValueError, match="shorter"):
        rows_of([run for told in records for run in runs_of(told)])


def test_a_file_must_be_trained_everywhere() -> None:
    here, there = runs_of(record("x86_64", ref=[2.0])), runs_of(record("aarch64", ref=[2.0]))
    with pytest.raises(AssertionError, match="other was not trained everywhere"):
        rows_of([*here, *there, replace(here[0], file="other")])
