from __future__ import annotations

import numpy as np
import pytest

from handtorch.meters.signal import Kind
from handtorch.profile.energy.join import Pieces, pieces_of
from handtorch.profile.energy.noise import column
from handtorch.profile.energy.sense import Rows, touch
from tests.profile.energy.small_world import IDLE_W, MS, World, read, world


def built(kind: Kind, span_ns: int) -> tuple[World, Pieces, Rows]:
    made = world(0, steps=6, varies=0.0)
    series = read(made, kind, span_ns)
    spans = made.spans
    pieces = pieces_of(spans, np.ones(6, bool), -10**9, int(made.at[-1]) + 10**9)
    at = (series.time_ns - pieces.zero_ns) * 1e-9
    if kind == "counter":
        return made, pieces, Rows(kind, 0.0, at[:-1], at[1:], at[1:] * 0, np.diff(series.value))
    return made, pieces, Rows(kind, span_ns * 1e-9, at, at, at * 0, series.value)


@pytest.mark.parametrize("kind, span_ns, error", [
    ("instant", 0, 1e-9), ("window", 30 * MS, 1e-9), ("counter", 0, 1e-9),
    ("lowpass", 8 * MS, 1e-3)])
def test_weights_times_true_powers_are_the_readings(kind: Kind, span_ns: int, error: float) -> None:
    made, pieces, rows = built(kind, span_ns)
    found = touch(pieces, rows, np.zeros(len(rows)), 0.0)
    x = column(pieces, found, len(rows), np.arange(pieces.ops + 2), pieces.ops + 2)
    seconds = np.bincount(made.spans.op, (made.spans.end_ns - made.spans.start_ns) * 1e-9)
    power = np.append(made.truth / seconds, [IDLE_W, IDLE_W])
    assert x @ power == pytest.approx(rows.value, rel=error)


def test_an_old_value_of_a_counter_is_the_mean_over_its_age() -> None:
    _, pieces, rows = built("counter", 0)
    aged = Rows("counter", 1e-3, rows.before, rows.at, rows.half, rows.value)
    total = np.zeros((len(rows), pieces.ops + 2))
    ages = (np.arange(400) + 0.5) / 400 * 1e-3
    columns = np.arange(pieces.ops + 2)
    for age in ages:
        one = touch(pieces, rows, np.full(len(rows), age), 0.0)
        total += column(pieces, one, len(rows), columns, pieces.ops + 2) / len(ages)
    found = touch(pieces, aged, np.zeros(len(rows)), 1.0)
    assert column(pieces, found, len(rows), columns, pieces.ops + 2) == pytest.approx(
        total, abs=1e-8)


def test_where_the_time_is_uncertain_all_that_may_have_run_has_a_weight() -> None:
    _, pieces, rows = built("instant", 0)
    rows = Rows("instant", 0.0, rows.at, rows.at, np.full(len(rows), 3e-3), rows.value)
    found = touch(pieces, rows, np.zeros(len(rows)), 1.0)
    assert np.bincount(found.row, found.weight) == pytest.approx(np.ones(len(rows)))
    assert (found.weight < 0.999).any()


def test_a_clock_that_runs_fast_is_put_right_around_the_middle() -> None:
    at = np.array([0.0, 50.0, 100.0])
    found = Rows("instant", 0.0, at, at, at, at).stretched(1e-3)
    assert found.at.tolist() == [0.05, 50.0, 99.95]
