from __future__ import annotations

import numpy as np
import pytest

from handtorch.profile.energy.join import pieces_of
from handtorch.profile.energy.noise import Blocks, column, faded, noise_of
from handtorch.profile.energy.sense import Rows, touch
from tests.profile.energy.small_world import MS, read, world


def test_fading_from_reading_to_reading_is_the_filter() -> None:
    made = world(0, steps=20)
    pieces = pieces_of(made.spans, np.ones(20, bool), -10**9, int(made.at[-1]) + 10**9)
    series = read(made, "lowpass", 8 * MS)
    at = (series.time_ns - pieces.zero_ns) * 1e-9
    rows = Rows("lowpass", 8e-3, at, at, at * 0, series.value)
    columns, lag = np.arange(8), np.full(len(at), 1e-3)
    slow = column(pieces, touch(pieces, rows, lag, 0.0), len(at), columns, 8)
    assert faded(pieces, rows, lag, columns, 8) == pytest.approx(slow, abs=1e-4)


def test_rows_that_share_an_instance_err_together_and_others_do_not() -> None:
    made = world(0, steps=20)
    pieces = pieces_of(made.spans, np.ones(20, bool), -10**9, int(made.at[-1]) + 10**9)
    series = read(made, "instant", every_ms=1.0)
    at = (series.time_ns - pieces.zero_ns) * 1e-9
    rows = Rows("instant", 0.0, at, at, at * 0, series.value)
    found = touch(pieces, rows, at * 0, 0.0)
    noise = noise_of(pieces, rows, found, np.ones(8), np.zeros((0, 2)), np.arange(8))
    piece = np.full(len(at), -1)
    piece[found.row[found.weight > 0]] = found.piece[found.weight > 0]
    first = piece[: noise.blocks.size]
    together = first[:, None] == first[None, :]
    assert ((noise.parts[2, 0] > 0) == together).all()
    assert np.trace(noise.parts[0].sum(axis=0)) == pytest.approx(len(at))


def test_blocks_are_filled_up_with_nothing() -> None:
    cut = Blocks(5, 3).cut(np.arange(1.0, 6.0))
    assert cut.tolist() == [[1, 2, 3], [4, 5, 0]]
