from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import BadInput
from handtorch.record import Run
from handtorch.report import render_comparison, write_comparison

NBSP = "\N{NO-BREAK SPACE}"


@pytest.fixture
def after(run: Run) -> Run:
    """Twice as fast, on another driver, with another verdict."""
    return replace(
        run, steps=tuple(replace(s, end_ns=s.start_ns + (s.end_ns - s.start_ns) // 2)
                         for s in run.steps),
        launches=tuple(replace(la, end_ns=(la.start_ns or 0) + 10) for la in run.launches),
        devices=(replace(run.devices[0], driver="513.0"),),
        verdicts=(replace(run.verdicts[0], holds=False),))


def test_steps_are_compared_in_a_sentence_with_the_spread(
        run: Run, after: Run, parse: Any) -> None:
    page = parse(render_comparison([run, after], ["before", "after"]))
    assert page.all("p", "said")[0].text.replace(NBSP, " ") == (
        "A step of mlp b32 takes 200 ns on gpu in after, 50 % as long as the 400 ns on gpu in "
        "before.")
    near = replace(run, steps=tuple(replace(s, end_ns=s.end_ns - 10) for s in run.steps))
    said = parse(render_comparison([run, near])).all("p", "said")[0].text
    assert said.endswith("That is within the spread of one of them.")
    assert "sgemm: Level with BLAS? before: holds; after: does not hold" in [
        e.text for e in page.all("p")]


def test_what_differs_in_the_setting_is_listed_and_nothing_else(
        run: Run, after: Run, parse: Any) -> None:
    html = render_comparison([run, after], ["before", "after"])
    rows = [e.text for e in parse(html).all("th") if e.attrs["scope"] == "row"]
    assert "device" in rows and "system" not in rows
    assert "Machine, devices and software are the same" in render_comparison([run, run])


def test_figures_of_both_are_drawn_together(run: Run, after: Run, parse: Any) -> None:
    page = parse(render_comparison([run, after], ["before", "after"]))
    labels = {e.text for e in page.all("text", "label")}
    assert {"naive · before", "naive · after"} <= labels
    assert [e.text for e in page.all("h2")] == [
        "What differs", "Steps", "Kernels", "Memory", "Study: sgemm", "How to read the figures"]


def test_kernels_that_changed_most_come_first(run: Run, after: Run, parse: Any) -> None:
    page = parse(render_comparison([run, after]))
    table = next(e for e in page.all("table") if "Device time" in e.attrs["aria-label"])
    assert table.text.index("backward") < table.text.index("transfer")


def test_names_are_told_apart(run: Run, parse: Any) -> None:
    page = parse(render_comparison([run, run, run], ["a", "a", "b"]))
    assert page.all("h1")[0].text == "a | a (2) | b"


def test_one_run_is_no_comparison(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a comparison of 1 runs under 0 names"):
        write_comparison([run], tmp_path / "one.html")
    with pytest.raises(BadInput, match="a comparison of 2 runs under 1 names"):
        write_comparison([run, run], tmp_path / "one.html", ["a"])
    path = write_comparison([run, run], tmp_path / "two.html")
    assert path.read_text(encoding="utf-8") == render_comparison([run, run])
