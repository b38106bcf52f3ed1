from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from handtorch.record import Result, Run
from handtorch.report import tables
from handtorch.report.series import figures

MakeResult = Callable[..., Result]


def cells(page: Any) -> list[list[str]]:
    """The text of a table, row by row."""
    rows: list[list[str]] = []
    for e in page.elements:
        if e.tag == "tr":
            rows.append([])
        elif e.tag in ("th", "td"):
            rows[-1].append(e.text)
    return rows


def test_heads_stand_over_words_to_the_left_and_over_numbers_to_the_right(parse: Any) -> None:
    page = parse(tables.table("A &amp; B", ["who", "said", "n"],
                              [["me", tables.text_cell("<hi>"), "1"]]))
    assert [e.attrs.get("class") for e in page.all("th")] == [None, "left", None, None]
    assert [e.attrs.get("scope") for e in page.all("th")] == ["col", "col", "col", "row"]
    assert page.all("p")[0].text == page.all("table")[0].attrs["aria-label"] == "A & B"
    assert cells(page)[1] == ["me", "<hi>", "1"]


def test_a_matrix_has_median_spread_and_provenance_and_marks_the_best(
        run: Run, parse: Any) -> None:
    page = parse(tables.matrix(figures(run)[0]))
    assert cells(page) == [
        ["n", "", "32", "64", "512"],
        ["naive", "measured", "3.200.50", "6.400.50", "51.20.50"],
        ["register", "measured", "32.00.50", "64.00.50", "5120.50"],
        ["numpy", "measured", "28.80.50", "57.60.50", "4610.50"],
        ["torch", "measured", "\N{EN DASH}", "\N{EN DASH}", "\N{EN DASH}"],
    ]
    assert [e.text for e in page.all("td", "best")] == ["32.00.50", "64.00.50", "5120.50"]
    assert page.all("td")[-3].attrs["title"] == "torch: torch is not installed"


def test_the_best_is_the_lowest_where_lower_is_better(run: Run, parse: Any) -> None:
    times = replace(run, results=tuple(replace(r, better="lower") for r in run.results[:9]))
    best = parse(tables.matrix(figures(times)[0])).all("td", "best")
    assert [e.text for e in best] == ["3.200.50", "6.400.50", "51.20.50"]


def test_a_modelled_figure_is_never_the_best_and_marked_where_mixed(run: Run, parse: Any) -> None:
    results = list(run.results[:9])
    results[3] = replace(results[3], provenance="simulated")  # register at 32
    page = parse(tables.matrix(figures(replace(run, results=tuple(results)))[0]))
    assert [e.text for e in page.all("td", "best")] == ["64.00.50", "5120.50", "28.80.50"]
    assert cells(page)[2] == ["register", "measured, simulated", "32.0s0.50", "64.00.50", "5120.50"]


def test_a_long_curve_gets_its_extremes_instead(run: Run, result: MakeResult, parse: Any) -> None:
    long = replace(run, results=tuple(
        result(name="loss", unit="", better="lower", x_name="step", x_value=float(i),
               value=abs(50.0 - i) + 0.5) for i in range(100)))
    (figure,) = figures(long)
    assert tables.matrix(figure) == ""
    assert cells(parse(tables.extremes(figure))) == [
        ["series", "first", "last", "lowest", "points", "provenance"],
        ["naive", "50.50", "49.599", "0.50050", "100", "measured"]]


def test_every_result_has_its_row_with_reasons(run: Run, parse: Any) -> None:
    rate, time = (cells(parse(tables.every_result(f))) for f in figures(run))
    dash = "\N{EN DASH}"
    assert rate[0] == ["series", "n", "median", "spread", "bounds", "repeats", "provenance"]
    assert len(rate) == 1 + 10
    assert rate[-1] == ["torch", "32", "unknown: torch is not installed", dash, dash, "0",
                        "measured"]
    assert time[1] == ["ours", "0.5\N{NO-BREAK SPACE}ms", dash, "0.4 to 0.7min to max", "1",
                       "measured"]


def test_a_table_of_too_many_rows_is_cut_and_says_so(
        run: Run, result: MakeResult, parse: Any) -> None:
    many = replace(run, results=tuple(result(x_value=float(i)) for i in range(1234)))
    page = parse(tables.every_result(figures(many)[0]))
    assert len(cells(page)) == 601
    assert page.all("p")[0].text == (
        "rate, every figure (600 of 1,234; the run file holds the rest)")


def test_a_source_shared_by_all_is_said_once(run: Run, parse: Any) -> None:
    (p,) = run.published
    page = parse(tables.published_table([p, p]))
    assert page.all("p")[0].text == "Published, not measured here: Fig. 3"
    assert cells(page)[1] == ["OnePlus 6", "rate", "n 512", "40\N{NO-BREAK SPACE}GFLOPS"]
    two = parse(tables.published_table([p, replace(p, source="Fig. 4")]))
    assert cells(two)[2][-1] == "Fig. 4"
    assert tables.published_table([]) == ""


def test_the_setting(run: Run, parse: Any) -> None:
    assert cells(parse(tables.machine_table(run)))[1] == [
        "processor", "unknown: /proc/cpuinfo does not say"]
    assert cells(parse(tables.device_table(run)))[1][-1] == "passed"
    assert cells(parse(tables.place_table(run)))[1:] == [
        ["gpu", "device", "Adreno 640", "unknown: not a host's"],
        ["cpu", "host cpu", "\N{EN DASH}", "4-7"]]
    assert cells(parse(tables.software_table(run)))[1] == ["torch", "unknown: not installed"]


def test_sensors_and_steps_are_summed_up(run: Run, parse: Any) -> None:
    failed = replace(run.samples[0], value=None, value_reason="busy")
    more = replace(run, samples=(*run.samples, failed, replace(run.samples[0], value=2.5)))
    assert cells(parse(tables.sample_table(more)))[1] == [
        "gpu_power_w", "ina3221", "3", "1", "1.5", "2.5", "2.5", "simulated"]
    assert cells(parse(tables.step_table(run)))[1] == [
        "mlp b32", "gpu", "train", "3", "400\N{NO-BREAK SPACE}ns", "200\N{NO-BREAK SPACE}ns",
        "measured"]


def test_lone_figures_share_a_table_with_what_was_published(
        run: Run, result: MakeResult, parse: Any) -> None:
    one = result(name="depth", subject="ours", x_name="", x_value=None, value=2.4, unit="x")
    lost = result(name="joules", subject="ours", x_name="", x_value=None, value=None,
                  value_reason="no sensor", repeats=0, unit="J")
    (p,) = run.published
    printed = replace(p, name="depth", unit="x", x_name="", x_value=None, value=3.0)
    found = figures(replace(run, results=(one, lost), published=(printed,)))
    dash = "\N{EN DASH}"
    assert cells(parse(tables.lone_table(found)))[1:] == [
        ["depth", "ours", "2.4\N{NO-BREAK SPACE}x", dash, "OnePlus 6: 3", "measured"],
        ["joules", "ours", dash, dash, dash, "measured"]]
