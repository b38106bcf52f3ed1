"""The verdict over the days that no number of the policy was set on, from the tables we ship."""

from __future__ import annotations

import pytest

from benchmarks.offload import MEASURED, judged, line
from handtorch.offload.days import JUDGING, Day
from handtorch.offload.table import read_tables

FILES = sorted(path.name for path in MEASURED.glob("*.json"))


def test_there_are_tables() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("day", JUDGING, ids=lambda day: day.name)
def test_near_the_oracles_and_the_better_fixed_choice(file: str, day: Day) -> None:
    cpu, device = read_tables(MEASURED / file).places
    verdict = judged(day, cpu, device)
    assert verdict.over_fixed() <= 1.05, line(verdict)
    assert verdict.over_oracle() <= 1.10, line(verdict)
    # No policy knows the luck of a single call; an informed oracle does not either.
    assert verdict.over_mean_oracle() <= 1.05, line(verdict)
    # On a day on which 70 % happens to be right that rule, which never looks, is 0.4 % quicker.
    assert verdict.over_oracle() <= 1.01 * verdict.over_oracle("70 % rule"), line(verdict)
