from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.report.axis import log_axis, size_axis, spans_decades, x_axis, y_axis

FIGURES = st.lists(st.floats(-1e9, 1e9).map(lambda v: round(v, 3)), min_size=1, max_size=40)


def test_sizes_that_grow_by_factors_get_a_logarithmic_axis_in_powers_of_two() -> None:
    axis = x_axis([*range(32, 513, 32), 1024])
    assert axis.log
    assert [text for _, text in axis.ticks] == ["32", "64", "128", "256", "512", "1,024"]
    assert [axis.at(32), axis.at(1024)] == [0, 1]
    assert axis.at(64) == pytest.approx(0.2)


@pytest.mark.parametrize("values", [range(1, 21), range(0, 1000), [1, 2, 4], [0, 1, 50, 200], [7]])
def test_other_x_get_a_linear_axis(values: list[float]) -> None:
    assert not x_axis(list(values)).log


def test_a_few_even_x_are_named_themselves_from_the_last_one_back() -> None:
    assert [v for v, _ in x_axis([32, 64, 96, 128]).ticks] == [32, 64, 96, 128]
    assert [v for v, _ in x_axis(range(32, 513, 32), 12).ticks] == list(range(64, 513, 64))


def test_one_x_stands_in_the_middle() -> None:
    assert x_axis([7.0]).at(7.0) == 0.5


@pytest.mark.parametrize(("values", "low", "high"), [
    ([3.0, 97.0], 0.0, 100.0),       # from zero
    ([95.0, 97.0], 95.0, 97.0),      # unless that hides the shape
    ([-3.0, 4.0], -4.0, 4.0),
    ([5.0, 5.0], 2.0, 8.0),
    ([0.0], 0.0, 1.0),
])
def test_a_linear_y_axis(values: list[float], low: float, high: float) -> None:
    axis = y_axis(values)
    assert (axis.log, axis.low, axis.high) == (False, low, high)


def test_a_logarithmic_y_axis_has_round_ticks_inside() -> None:
    axis = y_axis([1.0, 200.0], log=True)
    assert [text for _, text in axis.ticks] == ["1", "3", "10", "30", "100"]
    assert axis.low < 1 and axis.high > 200
    many = y_axis([1.0, 200.0], 8, log=True).ticks
    assert [text for _, text in many] == ["1", "2", "5", "10", "20", "50", "100", "200"]


def test_when_a_linear_axis_would_press_values_flat() -> None:
    assert spans_decades([1.0, 50.0])
    assert not spans_decades([1.0, 49.0])
    assert not spans_decades([0.0, 50.0])


@given(FIGURES, st.integers(4, 12))
def test_every_value_lies_on_both_axes_and_ticks_are_few_and_inside(
        values: list[float], most: int) -> None:
    for axis in (x_axis(values, most), y_axis(values, most)):
        assert all(-1e-9 <= axis.at(v) <= 1 + 1e-9 for v in values)
        places = [axis.at(v) for v, _ in axis.ticks]
        assert places == sorted(places) and 1 <= len(places) <= most + 1
        assert all(-1e-6 <= p <= 1 + 1e-6 for p in places)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20), st.integers(4, 12))
def test_a_logarithmic_axis_holds_its_values_too(values: list[float], most: int) -> None:
    values.append(50 * min(values))
    axis = y_axis(values, most, log=True)
    assert all(0 < axis.at(v) < 1 for v in values)
    assert 1 <= len(axis.ticks) <= most


@pytest.mark.parametrize(("most", "texts"), [
    (0, ["0 B", "1 B"]), (5_000, ["0 B", "1 KiB", "5 KiB"]), (3 << 20, ["0 B", "1 MiB", "3 MiB"])])
def test_sizes_are_in_powers_of_1024(most: int, texts: list[str]) -> None:
    axis = size_axis(most)
    named = [text.replace("\N{NO-BREAK SPACE}", " ") for _, text in axis.ticks]
    assert set(texts) <= set(named)
    assert axis.low == 0 and axis.high >= most


def test_a_logarithmic_axis_keeps_its_ends() -> None:
    axis = log_axis(0.03, 40.0, 10)
    assert (axis.low, axis.high, axis.log) == (0.03, 40.0, True)
    assert all(0 <= axis.at(v) <= 1 for v, _ in axis.ticks) and len(axis.ticks) >= 3
