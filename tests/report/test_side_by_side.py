"""The table of a comparison, in Markdown and on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from handtorch.record import Place, Result, Run, RunWriter, Verdict, read_run
from handtorch.report import markdown, render
from handtorch.report.side_by_side import HEAD, lines
from handtorch.report.spell import MISSING


def result(name: str, place: str, value: float | None, *, why: str = "",
           quartiles: tuple[float, float] | None = None, x: float | None = None) -> Result:
    low, high = quartiles or (None, None)
    return Result(study="bench train", name=name, subject="NIN b16", place=place, value=value,
                  value_reason=why, unit="ms", better="lower",
                  repeats=0 if value is None else (5 if quartiles else 1),
                  spread=high - low if low is not None and high is not None else None, low=low,
                  high=high, bounds="quartiles" if quartiles else "", provenance="measured",
                  x_name="round" if x is not None else "", x_value=x)


def a_run(folder: Path, *results: Result) -> Run:
    with RunWriter.create(folder / "run.htr", "handtorch bench train NIN") as record:
        for name in ("handtorch", "torch", "m|n<n"):
            record.add(Place(name=name, kind="host cpu", cores="0,1"))
        record.add(*results)
    return read_run(folder / "run.htr")


RESULTS = (
    result("time of a run", "handtorch", 2.0, quartiles=(1.5, 2.5)),
    result("time of a run, each block", "handtorch", 2.0, x=1),
    result("runs timed", "handtorch", 1200), result("first run", "handtorch", 1.25),
    result("time of a run", "torch", 4.0, quartiles=(3.0, 5.0)),
    result("handtorch is so many times as fast", "torch", 2.0, quartiles=(1.9, 2.1)),
    result("peak memory of the process", "torch", 512.3),
    result("peak memory beyond the engine", "torch", 100.0),
    result("time of a run", "m|n<n", None, why="skipped: it is\nnot installed"),
)


def test_a_row_for_each_side_with_all_that_is_known(tmp_path: Path) -> None:
    ours, torch, absent = lines(a_run(tmp_path, *RESULTS))
    assert ours == ("NIN b16", "handtorch", "2.00", "1.50 to 2.50", "5", "1,200", MISSING, "1.25",
                    MISSING, MISSING, "")
    assert torch == ("NIN b16", "torch", "4.00", "3.00 to 5.00", "5", MISSING,
                     "2.00 (1.90 to 2.10)", MISSING, "512", "100", "")
    assert absent[2:-1] == (MISSING,) * 8 and absent.remark == "skipped: it is\nnot installed"


def test_markdown_is_a_whole_table_whatever_is_in_it(tmp_path: Path) -> None:
    head, rule, *rows = markdown(a_run(tmp_path, *RESULTS)).splitlines()
    assert head == f"| {' | '.join(HEAD)} |"
    assert rule.count("---") == len(HEAD)
    assert rows[2].startswith("| NIN b16 | m\\|n<n |")
    assert rows[2].endswith("| skipped: it is not installed |")


def test_the_page_has_it_and_shows_text_as_text(tmp_path: Path) -> None:
    page = render(a_run(tmp_path, *RESULTS))
    assert "<h2>Side by side</h2>" in page and "2.00 (1.90 to 2.10)" in page
    assert "m|n&lt;n" in page and "m|n<n" not in page


def test_a_run_without_a_comparison_has_no_such_table(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert markdown(run) == "" and "Side by side" not in render(run)


def test_ratios_that_nobody_judges_are_marked(tmp_path: Path) -> None:
    quiet = a_run(tmp_path, *RESULTS)
    busy = replace(quiet, verdicts=(Verdict(
        study="bench train", question="?", answer="Perhaps.", holds=None,
        holds_reason="other programs used 23% of the machine meanwhile"),))
    note = ("(*) Other programs used 23 % of this machine's cores while this was timed: no speed "
            "is judged by it.")
    assert "*" not in markdown(quiet) and "Other programs" not in render(quiet)
    *table, empty, last = markdown(busy).splitlines()
    assert "| 2.00 (1.90 to 2.10) * |" in table[3] and (empty, last) == ("", note)
    assert "(1.90 to 2.10) *" in render(busy) and note in render(busy)
