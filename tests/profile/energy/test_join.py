from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from handtorch.profile.energy.join import active, integral, pieces_of, touching
from handtorch.profile.energy.model import Spans


def spans(rows: list[tuple[int, int, int, int]], steps: list[tuple[int, int]]) -> Spans:
    """Each row: (operation, lane, start, end); its step is the one that holds its start."""
    op, lane, start, end = (np.array([row[i] for row in rows], np.int64) for i in range(4))
    first, last = np.array(steps, np.int64).T
    step = np.searchsorted(first, start, side="right") - 1
    return Spans(("a", "b", "c"), op, lane, step, start, end, first, last)


TWO = spans([(0, 0, 10, 30), (1, 0, 30, 40), (2, 1, 20, 50), (1, 0, 45, 45), (0, 0, 110, 120)],
            [(0, 60), (100, 130)])


def test_a_lone_lane_has_gaps_and_lanes_have_idle_beneath() -> None:
    alone = spans([(0, 0, 10, 30), (1, 0, 30, 40)], [(0, 60)])
    found = pieces_of(alone, np.array([True]), -100, 200)
    rows = [(int(op), int(step), round(float(low) * 1e9), round(float(high) * 1e9))
            for op, step, low, high in zip(found.op, found.step, found.start, found.end,
                                           strict=True)]
    assert rows == [(0, 0, 10, 30), (1, 0, 30, 40), (4, -1, -100, 0), (3, 0, 0, 10),
                    (3, 0, 40, 60), (4, -1, 60, 200)]
    assert not found.layered and round(found.gap * 1e9) == 30

    found = pieces_of(TWO, np.array([True, True]), -5, 140)
    assert found.layered and round(found.gap * 1e9) == 10 + 10 + 10 + 10
    assert [round(share * 1e9, 6) for share in found.share] == [10 + 5 + 10, 5, 5 + 5 + 10]
    beneath = found.op == found.idle
    assert [round(s * 1e9) for s in found.seconds[beneath]] == [60, 30]


def test_only_steps_that_count_have_shares_and_gaps() -> None:
    found = pieces_of(TWO, np.array([False, True]), -5, 140)
    assert [round(share * 1e9, 6) for share in found.share] == [10, 0, 0]
    assert round(found.gap * 1e9) == 20
    assert [int(found.step[i]) for i in np.flatnonzero(found.counts)] == [1, 1]


def test_running_at_once() -> None:
    at, running = active(TWO)
    assert at.tolist() == [10, 20, 30, 40, 50, 110, 120]
    assert running.tolist() == [1, 2, 2, 1, 0, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)), max_size=9),
       st.integers(-5, 60), st.integers(0, 40))
def test_every_piece_that_meets_a_reading_is_found(parts: list[tuple[int, int, int]], low: int,
                                                   length: int) -> None:
    """Against a loop over all of them."""
    rows, until = [], 0
    for op, gap, took in parts:
        rows.append((op, 0, until + gap, until + gap + took))
        until += gap + took
    some = spans(rows or [(0, 0, 0, 1)], [(0, max(until, 1))])
    found = pieces_of(some, np.array([True]), -50, 200)
    edge = np.array([low * 1e-9]), np.array([(low + length) * 1e-9])
    _, piece = touching(found, *edge)
    overlap = np.minimum(found.end, edge[1]) - np.maximum(found.start, edge[0])
    assert set(np.flatnonzero(overlap > 1e-12)) <= set(piece.tolist())
    assert abs(np.maximum(overlap[piece], 0).sum() - length * 1e-9) < 1e-15   # nothing twice


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.integers(-5, 50), st.integers(0, 40))
def test_an_integral_is_the_sum_over_every_nanosecond(steps: list[int], low: int, length: int
                                                      ) -> None:
    at = np.cumsum(steps)
    value = np.arange(1.0, len(at) + 1)
    slow = sum(value[np.searchsorted(at, t, side="right") - 1]
               for t in range(low, low + length) if at[0] <= t < at[-1])
    found = integral(at, value, np.array([low]), np.array([low + length]))
    assert abs(found[0] * 1e9 - slow) < 1e-6
