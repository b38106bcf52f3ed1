from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from handtorch.record import Published, Result, Run, RunInfo
from handtorch.report.charts import bar_chart, hover, line_chart
from handtorch.report.series import Figure, figures

MakeResult = Callable[..., Result]


@pytest.fixture
def figure(info: RunInfo) -> Callable[..., Figure]:
    def make(*results: Result, published: tuple[Published, ...] = ()) -> Figure:
        return figures(Run(info=info, results=results, published=published))[0]

    return make


def dots(element: Any) -> list[tuple[float, float]]:
    """Where each drawn circle of an SVG has its centre."""
    found = re.findall(r"M([\d.-]+) ([\d.-]+)a", " ".join(element))
    return [(float(x) + 3.2, float(y)) for x, y in found]


def test_a_curve_is_drawn_for_desk_and_phone_on_both_scales(run: Run, parse: Any) -> None:
    page = parse(line_chart(figures(run)[0]))
    assert [e.attrs["class"] for e in page.all("svg") if e.attrs.get("role") == "img"] == [
        "wide", "slim", "wide", "slim"]
    assert [e.attrs["class"] for e in page.all("div")] == ["chart", "log", "linear"]
    assert [e.attrs.get("class") for e in page.all("input")] == [None, "to-linear"]
    label = page.all("svg")[0].attrs["aria-label"]
    assert label == "Chart: rate against n. The table below holds its figures."


def test_a_narrow_range_needs_no_choice_of_scale(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    page = parse(line_chart(figure(result(x_value=1.0), result(x_value=2.0, value=3.0))))
    assert [e.attrs["class"] for e in page.all("div")] == ["chart", "linear"]
    assert page.all("input") == []


def test_every_known_point_is_there_and_says_its_figures(run: Run, parse: Any) -> None:
    page = parse(line_chart(figures(run)[0]))
    said = [e.text for e in page.all("title")
            if e.inside[-1] == "path.dot" and "div.log" in e.inside and "svg.wide" in e.inside]
    assert len(said) == 3 * 3 + 1  # torch has no known figure; one published
    assert "register at n 512: 512 GFLOPS, measured, spread 0.5, median of 500" in said
    assert "OnePlus 6: 40 GFLOPS, published: Fig. 3" in said


def test_points_lie_where_the_axes_say(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    page = parse(line_chart(figure(*(result(x_value=x, value=v) for x, v in
                                     ((1.0, 0.0), (2.0, 5.0), (3.0, 10.0))))))
    wide = page.all("svg")[0]
    width, height = map(int, wide.attrs["viewbox"].split()[2:])
    paths = [e.attrs["d"] for e in page.all("path", "dot") if "svg.wide" in e.inside]
    (x0, y0), (x1, y1), (x2, y2) = dots(paths)[:3]
    assert x0 == pytest.approx(62) and x2 < width - 40
    assert y0 == pytest.approx(height - 46) and y2 == pytest.approx(14)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.2) and y1 == pytest.approx((y0 + y2) / 2,
                                                                              abs=0.2)


@pytest.mark.parametrize("crowd", [1.0, 50.0, 99.0])  # at the foot, in the middle, at the top
@pytest.mark.parametrize("count", [2, 14, 30])
def test_labels_never_lie_over_each_other(
        figure: Callable[..., Figure], result: MakeResult, parse: Any, count: int,
        crowd: float) -> None:
    ends = [0.0, 100.0, *(crowd + i * 1e-3 for i in range(count - 2))]
    page = parse(line_chart(figure(*(result(subject=f"variant {i}", x_value=x, value=value)
                                     for i, value in enumerate(ends) for x in (1.0, 2.0)))))
    texts = page.all("text", "label")
    heights = sorted(float(e.attrs["y"]) for e in texts)
    tall = int(page.all("svg")[0].attrs["viewbox"].split()[3])
    assert len(texts) == count
    assert all(b - a >= 15.9 for a, b in pairwise(heights))
    assert heights[0] >= 10 and heights[-1] <= tall - 30


def test_a_label_that_is_cut_still_tells_of_which_run_it_is(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    names = ("tinygrad with a rather long name", "a name of 40 letters and no dot, all cut")
    made = figure(*(result(subject=f"{names[0]} · {run}", x_value=float(x), value=float(x))
                    for run in ("before", "after", "r" * 20) for x in (1, 2)),
                  *(result(subject=names[1], x_value=float(x), value=1.0) for x in (1, 2)))
    labels = {e.text for e in parse(line_chart(made)).all("text", "label")}
    assert labels == {"tinygrad with a rath… · before", "tinygrad with a rathe… · after",
                      "tinygrad with a rather long n…", "a name of 40 letters and no d…"}


@pytest.mark.parametrize("xs", [
    [1.0, 2.0], [*range(32, 513, 32), 1024], list(range(0, 100_000, 1000)), [1.0, 10.0, 1e6],
    [1e5, 1.5e5, 2e5], [100.0, 101.0, 102.0, 200.0], [2.0**k for k in range(20)],
])
def test_ticks_never_lie_over_each_other(
        figure: Callable[..., Figure], result: MakeResult, parse: Any, xs: list[float]) -> None:
    page = parse(line_chart(figure(*(result(x_value=float(x)) for x in xs))))
    for kind in ("svg.wide", "svg.slim"):
        ticks = [(float(e.attrs["x"]), e.text) for e in page.all("text", "mid")
                 if kind in e.inside][:-1]  # the last is the axis' name
        assert len(ticks) >= 2
        for (x, text), (after, more) in pairwise(ticks):
            assert x + 3.8 * len(text) + 2 < after - 3.8 * len(more)  # 7.6 px a digit, centred


def test_published_values_are_dashed_hollow_and_said_to_be_published(run: Run, parse: Any) -> None:
    page = parse(line_chart(figures(run)[0]))
    assert len(page.all("g", "published")) == 4
    assert [e.text for e in page.all("ul", "key")] == ["published by others"]
    without = parse(line_chart(figures(replace(run, published=()))[0]))
    assert without.all("ul", "key") == [] and without.all("g", "published") == []


def test_a_published_value_without_x_runs_across_the_chart(run: Run, parse: Any) -> None:
    anywhere = (replace(run.published[0], x_name="", x_value=None),)
    page = parse(line_chart(figures(replace(run, published=anywhere))[0]))
    lines = [e.attrs["d"] for e in page.all("path", "line") if "g.s published" in e.inside
             and "svg.wide" in e.inside]
    assert len(lines) == 2 and all(re.fullmatch(r"M62 [\d.]+H\d+", d) for d in lines)


def test_where_lines_coincide_ours_lies_on_top(run: Run, parse: Any) -> None:
    order = [e.attrs["class"] for e in parse(line_chart(figures(run)[0])).all("g")
             if "div.log" in e.inside and "svg.wide" in e.inside]
    assert order == ["s g0", "s c0", "s c1", "s published"]


def test_modelled_lines_are_dotted_and_say_so(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    page = parse(line_chart(figure(*(result(x_value=x, provenance="simulated")
                                     for x in (1.0, 2.0)))))
    assert page.all("g")[0].attrs["class"] == "s c0 modelled"
    assert page.all("text", "label")[0].text == "naive (simulated)"
    assert [e.text for e in page.all("ul", "key")] == ["estimated or simulated"]


def test_past_the_last_colour_the_marker_changes(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    page = parse(line_chart(figure(*(result(subject=f"v{i}", x_value=x)
                                     for i in range(11) for x in (1.0, 2.0)))))
    first, last = ([e.attrs["d"] for e in page.all("path", "dot")
                    if "g.s c0" in e.inside][at] for at in (0, -1))
    assert "a3.2" in first and "a" not in last


def test_bounds_become_a_band_while_there_are_few_lines(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    def bands(count: int) -> int:
        made = [result(subject=f"v{i}", x_value=x, low=1.0, high=9.0, bounds="min to max")
                for i in range(count) for x in (1.0, 2.0)]
        return len(parse(line_chart(figure(*made))).all("path", "band"))

    assert (bands(1), bands(3), bands(4)) == (2, 6, 0)


def test_a_long_curve_keeps_its_peak_and_loses_its_markers(
        figure: Callable[..., Figure], result: MakeResult, parse: Any) -> None:
    values = [1.0] * 5000
    values[1234] = 9.0
    html = line_chart(figure(*(result(x_value=float(i), value=v) for i, v in enumerate(values))))
    page = parse(html)
    line = next(e for e in page.all("path", "line") if "svg.wide" in e.inside).attrs["d"]
    assert len(html) < 40_000
    assert min(float(p.split()[1]) for p in line[1:].split("L")) < 100  # near the top
    assert [e for e in page.all("path", "dot") if "path.dot" not in e.inside
            and "svg.wide" in e.inside][1:] == []  # the label's own marker is left


def test_bars_are_in_proportion_and_tell_the_kinds_apart(run: Run, parse: Any) -> None:
    html = bar_chart(figures(run)[1])
    assert re.findall(r'<i class="([^"]+)" style="width:([\d.]+)%"', html) == [
        ("c0 measured", "25.00"), ("c1 simulated", "100.00")]
    assert [e.text for e in parse(html).all("span", "what")] == ["ours", "Nexus 5 (simulated)"]
    printed = Published(study="sgemm", name="step time", subject="paper", value=4.0, unit="ms",
                        source="Fig. 4")
    html = bar_chart(figures(replace(run, published=(printed,)))[1])
    assert '<i class="published" style="width:100.00%">' in html
    assert ">paper (published)<" in html


def test_no_bars_where_they_would_mislead(
        figure: Callable[..., Figure], result: MakeResult) -> None:
    def one(subject: str, value: float) -> Result:
        return result(subject=subject, value=value, x_name="", x_value=None)

    assert bar_chart(figure(one("a", 1.0))) == ""
    assert bar_chart(figure(one("a", 1.0), one("b", -1.0))) == ""
    assert bar_chart(figure(one("a", 0.0), one("b", 0.0))) == ""
    assert bar_chart(figure(one("a", 1.0), one("b", 0.0))) != ""


def test_hovering_tells_all_that_is_known(result: MakeResult) -> None:
    assert hover(result(repeats=3, spread=0.25, low=1.0, high=3.0, bounds="95 % interval")) == (
        "naive at n 32: 2 GFLOPS, measured, spread 0.25, 95 % interval 1 to 3, median of 3")
    assert hover(result(value=None, value_reason="too slow", repeats=0)) == "naive: too slow"
