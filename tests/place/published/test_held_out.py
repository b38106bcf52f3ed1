"""CI prints how far off the predictor is, and fails when it gets worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.place.published.held_out import (
    Judged,
    by_part,
    judged_papers,
    judged_tables,
    median_error,
    summary,
    table,
)
from handtorch.place.published.row import paper_rows

# Median absolute errors as they are; better ones are written in, worse ones fail.
PAPERS, ALL = 0.092, 0.196
LIMIT = 0.25
NO_WORSE = {"guo": 0.060, "mobirnn": 0.056, "tx2": 0.853, "opencl": 0.127, "ncnn": 0.195,
            "nn-meter": 0.184, "pieslicer": 0.158, "mdinference": 0.198, "codecarbon": 0.320}


def test_the_papers_are_foretold_no_worse(capsys: pytest.CaptureFixture[str]) -> None:
    judged = judged_papers()
    with capsys.disabled():
        print(f"\n{table(judged)}\n{summary(judged)}")
    assert median_error(judged) <= PAPERS
    for part, (_, error) in by_part(judged).items():
        assert error <= NO_WORSE[part], part


def test_all_published_rows_are_foretold_no_worse(shared: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    judged = (*judged_papers(), *judged_tables(shared))
    with capsys.disabled():
        print(f"\n{summary(judged)}")
    assert median_error(judged) <= ALL <= LIMIT
    for part, (_, error) in by_part(judged).items():
        assert error <= NO_WORSE[part], part


def test_each_held_out_row_is_in_the_table_and_no_other() -> None:
    held = [r for r in paper_rows() if r.tag == "held-out"]
    judged = judged_papers()
    assert [j.row for j in judged] == held
    lines = table(judged).splitlines()
    assert len(lines) == 1 + len(held)
    assert all(row.what in line for row, line in zip(held, lines[1:], strict=True))


def test_an_error_has_a_sign_and_the_median_has_none() -> None:
    row = replace(paper_rows()[0], value=100.0)
    judged = [Judged(row, 150.0), Judged(row, 90.0), Judged(row, 80.0)]
    assert [round(j.error, 3) for j in judged] == [0.5, -0.1, -0.2]
    assert median_error(judged) == pytest.approx(0.2)
    assert "+50%" in table(judged) and "-10%" in table(judged)


def test_no_tables_no_rows(tmp_path: Path) -> None:
    assert judged_tables(tmp_path) == ()
