"""Joules of operations against a simulated truth.

    python -m tests.profile.energy.test_truth [--seeds N] [--first N] [words of a scenario ...]

prints the whole table, or the scenarios that have these words in their names. `covered` is the
share of 95 % intervals that contain the truth and its standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from handtorch.profile.energy.attribute import attribute
from handtorch.profile.energy.model import Attribution, Series
from tests.profile.energy.judged import HEAD, Judged, Scenario, broken, coverage, judge, line
from tests.profile.energy.scenarios import QUICK, TABLE
from tests.profile.energy.simulated import Run


def ours(run: Run, series: Series) -> Attribution:
    return attribute(run.spans, series)


def table(scenarios: Sequence[Scenario]) -> list[Judged]:
    """Judges them all; each row is printed when it is done."""
    print(f"\n{HEAD}")
    judged = []
    for scenario in scenarios:
        judged.append(judge(scenario, ours))
        print(line(judged[-1]), flush=True)
    for kind in dict.fromkeys(s.meter.kind for s in scenarios):
        share, se, n = coverage([j for j in judged if j.scenario.meter.kind == kind
                                 and j.scenario.asked])
        print(f"{kind}: {share:.1%} +- {se:.1%} of {n} intervals contain the truth")
    return judged


def test_joules_are_as_good_as_promised() -> None:
    assert broken(table(QUICK)) == []


@pytest.mark.slow
def test_joules_are_as_good_as_promised_on_every_machine() -> None:
    """An eighth of the runs: the whole table, which this file prints, takes half an hour."""
    assert broken(table([replace(s, seeds=max(2, s.seeds // 8)) for s in TABLE])) == []


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seeds", type=int, help="how many, instead of the table's")
    parser.add_argument("--first", type=int, default=0, help="seed, for machines never seen before")
    args = parser.parse_args(words)
    chosen = [replace(s, seeds=args.seeds or s.seeds, first=args.first) for s in TABLE
              if all(word in s.name for word in args.words)]
    lines = broken(table(chosen))
    print("\n".join(lines) if lines else "as promised")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
