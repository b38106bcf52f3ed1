from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.record import Run
from handtorch.report.decision import decisions, others

NBSP = "\N{NO-BREAK SPACE}"
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def placed(run: Run, result: Any) -> Run:
    costs = {"net, lte, small": {"device CPU": 0.4, "cloud, jpeg": 0.1, "auto": 0.11},
             "net, 3g, large": {"device CPU": 0.4, "cloud, jpeg": 1.6, "auto": 0.4}}
    made = [result(study="recognize", name=f"cost: {way}", subject=case, x_name="", x_value=None,
                   value=value, unit="s", better="lower", provenance="simulated")
            for case, ways in costs.items() for way, value in ways.items()]
    return replace(run, results=(*run.results, *made))


def test_every_case_has_its_costs_its_best_and_what_auto_took(placed: Run, parse: Any) -> None:
    page = parse(decisions(placed, "recognize"))
    assert page.all("p")[0].text.startswith(
        "In 2 cases the cloud is cheaper in 1 and the device in 1.")
    cells = [e.text.replace(NBSP, " ") for e in page.all("td")]
    assert cells == ["400 ms", "100 ms", "cloud, jpeg", "110 ms", "+10.0 %", "simulated",
                     "400 ms", "1.6 s", "device CPU", "400 ms", "+0.0 %", "simulated"]
    duels = [e for e in page.all("div", "duel") if "title" in e.attrs]
    assert [e.text for e in duels] == [f"net, lte, small4{TIMES}", f"net, 3g, large4{TIMES}"]
    assert duels[0].attrs["title"].split("\n")[1] == "cloud is 4 times cheaper"


def test_costs_are_no_figures_of_their_own(placed: Run, run: Run) -> None:
    assert others(placed.results) == run.results
    assert decisions(run, "sgemm") == ""
