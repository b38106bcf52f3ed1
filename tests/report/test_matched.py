from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from handtorch.record import Result, Run
from handtorch.report.matched import letter, matched

MakeResult = Callable[..., Result]


def test_only_what_two_runs_have_and_ratios_to_the_first(run: Run, result: MakeResult) -> None:
    a = replace(run, results=(result(value=2.0, repeats=3, spread=0.4), result(x_value=64.0)))
    b = replace(run, results=(result(value=3.0, repeats=3, spread=0.4),))
    c = replace(run, results=(result(value=None, value_reason="broken", repeats=0),))
    (found,) = matched([a, b, c])
    assert [None if r is None else r.value for r in found.results] == [2.0, 3.0, None]
    assert [found.ratio(at) for at in range(3)] == [1.0, 1.5, None]
    assert [found.within_spread(at) for at in range(3)] == [True, False, None]


def test_the_place_does_not_part_figures(run: Run, result: MakeResult) -> None:
    a, b = (replace(run, results=(result(place=place),)) for place in ("gpu", "cpu"))
    assert len(matched([a, b])) == 1


def test_zero_has_no_ratio(run: Run, result: MakeResult) -> None:
    a = replace(run, results=(result(value=0.0),))
    assert matched([a, a])[0].ratio(1) is None


def test_letters() -> None:
    assert (letter(0), letter(25), letter(26)) == ("A", "Z", "run 27")
