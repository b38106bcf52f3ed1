from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.record import Energy, Missing, Run
from handtorch.report.energy import energy, step_joules

NBSP = "\N{NO-BREAK SPACE}"


def row(level: Any, name: str, total: float | None, **change: Any) -> Energy:
    given: dict[str, Any] = {
        "place": "gpu", "subject": "mlp b32", "meter": "ina3221", "quantity": "gpu_power_w",
        "level": level, "name": name, "instances": 10, "seconds": 0.5, "readings": 5,
        "total_j": total, "total_reason": "" if total is not None else "no readings",
        "dynamic_j": None, "dynamic_reason": "-", "how": "regression", "provenance": "measured"}
    return Energy(**given | change)


@pytest.fixture
def spent(run: Run) -> Run:
    return replace(run, energies=(
        row("rail", "", 2.0), row("idle", "", 0.4),
        row("layer", "fc1", 1.2, low_j=1.0, high_j=1.6), row("layer", "fc2", 0.4),
        row("layer", "fc3", None), row("op", "fc1 matmul", 1.1)))


def test_layers_are_bars_of_a_step_with_their_interval(spent: Run, parse: Any) -> None:
    page = parse(energy(spent))
    caption = page.all("figcaption")[0].text.replace(NBSP, " ")
    assert caption == "mlp b32 on gpu, ina3221 gpu_power_w: 200 mJ a step, 4 W on average measured"
    assert [e.text for e in page.all("span", "what")] == ["fc1", "idle", "fc2"]
    assert [e.attrs["style"] for e in page.all("b", "whisker")] == ["left:62.50%;width:37.50%"]
    said = page.all("div", "bar")[0].attrs["title"].replace(NBSP, " ")
    assert said == ("fc1: 120 mJ a step, measured, 95 % lie from 100 mJ to 160 mJ, 50 ms a step")
    assert step_joules(spent.energies) == 0.2


def test_unknown_joules_say_why(spent: Run, parse: Any) -> None:
    assert "unknown: no readings" in [e.text for e in parse(energy(spent)).all("td")]
    none = replace(spent, energies=(row("rail", "", None),))
    assert parse(energy(none)).all("p", "callout")[0].text.endswith(
        "joules are not known: no readings")
    assert step_joules(none.energies) is None


def test_missing_sensors_are_listed(run: Run) -> None:
    assert energy(run) == ""
    lacking = replace(run, missing=(Missing(source="rapl", why="no file", fix="run as root"),))
    assert "run as root" in energy(lacking)
