from __future__ import annotations

from handtorch.place.known import Known, together, unknown


def test_a_sum_is_no_better_than_its_worst_part() -> None:
    found = together((Known(1.0, "measured", "a clock"), Known(2.0, "simulated", "a model"),
                      Known(4.0, "measured", "a clock")))
    assert found == Known(7.0, "simulated", "a clock + a model")


def test_one_unknown_part_makes_it_unknown_and_says_why() -> None:
    found = together((Known(1.0, "measured", "a clock"), unknown("no sensor")))
    assert found == unknown("no sensor")


def test_what_is_nothing_does_not_spoil_the_rest() -> None:
    assert together((Known(0.0, "simulated", "sent as it is"), Known(2.0, "measured", "a clock"))
                    ) == Known(2.0, "measured", "a clock")
    assert together(()).value == 0
