from __future__ import annotations

import pytest

from handtorch.studies.recognize_regret import Cell, holds, judged, looks, regrets, shares


def cell(device: float, cloud: float, auto: float, *, unit: str = "s", noise: float = 0.0,
         first: tuple[float, ...] = ()) -> Cell:
    return Cell("n", "p", "latency", unit, {"device": [device - noise, device, device + noise],
                                            "cloud, png": [cloud] * 3}, [auto] * 3,
                ["device"] * 3, first)


def test_a_total_is_of_sums_and_not_of_shares() -> None:
    (found,) = regrets([cell(1.0, 2.0, 1.0), cell(0.1, 0.05, 0.1)])
    assert found.share == pytest.approx(1.1 / 1.05 - 1)


def test_seconds_and_joules_are_never_added() -> None:
    seconds, joules = regrets([cell(1.0, 2.0, 1.1), cell(10.0, 5.0, 5.0, unit="J")])
    assert (seconds.unit, joules.unit) == ("s", "J")
    assert seconds.share == pytest.approx(0.1) and joules.share == 0


def test_what_was_tried_first_counts_apart() -> None:
    cells = [cell(1.0, 4.0, 1.0, first=(4.0, 1.0)), cell(1.0, 4.0, 1.0)]
    assert regrets(cells)[0].share == 0 and looks(cells) == {"s": pytest.approx(3.0)}


def test_cells_within_the_spread_are_left_out() -> None:
    close, far = cell(1.0, 1.1, 1.0, noise=0.2), cell(1.0, 1.5, 1.0, noise=0.2)
    assert close.within_spread and not far.within_spread
    assert judged([close, far]) == [far]
    assert close.undecided and shares([close, far]) == {"device": 1.0, "cloud": 0.0}


def test_two_ways_of_one_place_do_not_hide_which_place_wins() -> None:
    ways = {"device CPU": [0.9, 1.0, 1.1], "device OpenCL": [1.02] * 3, "cloud, png": [3.0] * 3}
    one = Cell("n", "p", "latency", "s", ways, [1.0], ["device CPU"])
    assert one.within_spread and not one.undecided and shares([one])["device"] == 1


def test_both_places_have_to_win_and_little_may_be_lost() -> None:
    both = [cell(1.0, 2.0, 1.0), cell(2.0, 1.0, 1.0)]
    assert shares(both) == {"device": 0.5, "cloud": 0.5} and holds(both)
    assert not holds([both[0]])                                 # the cloud never wins
    assert not holds([cell(1.0, 2.0, 1.2), cell(2.0, 1.0, 1.0)])
    assert not holds([])
    assert both[0].best_of("cloud") == 2.0 and both[1].place == "cloud"
