from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.record import Run
from handtorch.report.summary import summary
from tests.report.profiled import profiled_run


def said(run: Run, parse: Any) -> list[str]:
    return [e.text.replace("\N{NO-BREAK SPACE}", " ") for e in parse(summary(run)).all("p")]


def test_a_profile_is_told_in_sentences(parse: Any) -> None:
    assert said(profiled_run(), parse) == [
        "A training step of mlp b32 on gpu takes 1 ms, the median of 2 steps, the middle half "
        "within 0 ns. Of the work forward 40 %, backward 30 %, optimizer 30 %. Most of it, 70 %, "
        "is gemm in layer fc1. Nothing works for 10.1 % of the time, mostly (99 %) for the cause "
        "wake."]


def test_tiles_have_their_provenance(run: Run, parse: Any) -> None:
    tiles = [e.text.replace("\N{NO-BREAK SPACE}", " ") for e in parse(summary(run)).all("li")]
    assert tiles == ["400 nsa step of mlp b32 on gpumeasured",
                     "4 KiBof memory at the peakestimated",
                     "1 of 1questions: the claim holdsmeasured"]


@pytest.mark.parametrize(("same", "note"), [
    (True, " Both share the same cores."), (False, ""),
    (None, " Whether the two share cores is not recorded.")])
def test_two_places_are_compared_and_shared_cores_said(
        run: Run, parse: Any, same: bool | None, note: str) -> None:
    slower = tuple(replace(s, id=s.id + 10, place="cpu", end_ns=s.start_ns + 1200)
                   for s in run.steps)
    (c,) = run.comparisons
    silicon = replace(c, same_silicon=same, same_silicon_reason="" if same is not None else "?")
    both = replace(run, steps=(*run.steps, *slower), comparisons=(silicon,))
    assert said(both, parse)[-1] == f"gpu is 3 times as fast as cpu on mlp b32.{note}"
