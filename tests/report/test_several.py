from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from handtorch.record import Run
from handtorch.report.several import render_comparison, write_comparison


def test_every_shared_figure_is_there_with_its_ratio(run: Run, parse: Any) -> None:
    faster = replace(run, results=tuple(
        replace(r, value=None if r.value is None else 2 * r.value) for r in run.results))
    page = parse(render_comparison([run, faster]))
    cells = [e.text for e in page.all("td")]
    assert "3.2 GFLOPS" in cells and "6.4 GFLOPS" in cells and "2" in cells
    heads = [e.text for e in page.all("th")]
    assert "B / A" in heads and "rate: naive, n 32" in heads
    assert any("torch is not installed" in cell for cell in cells)
    assert "2simulated" not in heads and "2 mssimulated" in cells       # the word stands small


def test_equal_runs_lie_within_their_spread(run: Run) -> None:
    assert render_comparison([run, run]).count("within the spread") == 9


def test_runs_without_a_common_figure_say_so(run: Run) -> None:
    page = render_comparison([run, replace(run, results=())])
    assert "no figure in common" in page


def test_text_of_a_run_stays_text(run: Run, tmp_path: Path, parse: Any) -> None:
    evil = replace(run, info=replace(run.info, command="<script>alert(1)</script>"))
    path = write_comparison([run, evil], tmp_path / "page.html")
    page = parse(path.read_text())
    assert not page.all("script")
    assert any("<script>alert(1)</script>" in e.text for e in page.all("td"))
