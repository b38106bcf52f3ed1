"""Every strategy gives the same answer, whatever the sizes; MobiRNN's own networks too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handtorch.kernels.lstm import exact_scores
from handtorch.kernels.lstm_units import PAPER_UNITS, Units, coarse, diagonals, fine
from handtorch.kernels.lstm_weights import random_weights
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.studies import rnn_strategies
from handtorch.studies.rnn_strategies import (
    A1,
    A2,
    B1,
    B2,
    C_GROUPS,
    D_PAPER,
    TITLES,
    C,
    D,
    E,
    Sides,
    over,
    ready,
)
from handtorch.zoo.har_data import read_weights, read_windows

pytestmark = pytest.mark.spread

WITHIN = 1e-5                               # of scores around 1; sums in another order differ


@pytest.fixture(scope="session")
def on(opencl_device: FoundDevice) -> OpenCLExecutor:
    return OpenCLExecutor(opencl_device)


@pytest.mark.parametrize("hidden,layers,time,batch", [
    (32, 2, 64, 1), (64, 1, 9, 2), (7, 3, 5, 3), (33, 2, 6, 1), (1, 2, 3, 2), (5, 3, 1, 1)])
def test_all_strategies_agree(on: OpenCLExecutor, hidden: int, layers: int, time: int,
                              batch: int) -> None:
    weights = random_weights(hidden, layers, seed=3)
    windows = np.random.default_rng(hidden).normal(0, 1, (batch, time, 9)).astype("f4")
    exact = exact_scores(weights, windows.swapaxes(0, 1))
    with ready(Sides(weights, on, on, windows), list(TITLES)) as strategies:
        for key, strategy in strategies.items():
            for _ in range(2):              # a second run starts from zero states again
                off = np.abs(strategy.runs.scores(windows) - exact).max()
                assert off <= WITHIN, f"{key}: {off:.2g}"


def test_launches_per_cell(on: OpenCLExecutor) -> None:
    """Two for each of a window's anti-diagonals, and the layers before and after; the CPU's own
    ways launch nothing."""
    weights, windows = random_weights(8, 2), np.zeros((1, 16, 9), "f4")
    with ready(Sides(weights, on, on, windows), list(TITLES)) as strategies:
        told = {key: s.launches_per_cell for key, s in strategies.items()}
        ours = strategies[E].runs
        assert isinstance(ours, rnn_strategies.Ours)
        steps = len(ours.infer.program.steps)
        notes = strategies[D_PAPER].note, strategies[D].note
    cells = 2 * 16
    assert told == {**dict.fromkeys((A1, A2, B2)), **dict.fromkeys((C, C_GROUPS), 17 + 3 / cells),
                    **dict.fromkeys((D_PAPER, D, B1), (2 * 17 + 2) / cells), E: steps / cells}
    assert notes[0] == "12 x 10" and notes[1] in map(str, rnn_strategies.SHAPES)


def test_states_are_two_for_each_cell_of_the_widest_diagonal() -> None:
    """The paper's example: 3 layers and 4 steps need 6 matrices, not 24."""
    weights = random_weights(8, 3)
    few, many = coarse(weights, time=4, batch=2), fine(weights, time=4, batch=2)
    matrix = 2 * 8
    assert sum(v.size for v in few.kept) == 6 * matrix
    assert sum(v.size for v in many.kept) == (24 + 6) * matrix      # and zeros to start from
    assert [cells for *_, cells in diagonals(3, 4)] == [1, 2, 3, 3, 2, 1]
    assert list(diagonals(2, 1)) == [(0, 0, 1), (1, 1, 1)]


def test_units_by_columns() -> None:
    weights = random_weights(30, 1)         # 120 columns, as in the paper's figure 2
    diagonal = coarse(weights, time=1).steps[1]
    assert (str(PAPER_UNITS), diagonal.global_size) == ("12 x 10", (12, 1, 1))
    assert dict(diagonal.defines)["COLUMNS"] == 10
    assert coarse(weights, time=1, units=Units(40, 16)).steps[1].global_size == (8, 1, 1)
    with pytest.raises(AssertionError, match="3 x 17"):
        Units(3, 17)


GROUPED = [key for key in TITLES if key != C]        # column by column takes minutes on a CPU


@pytest.mark.parametrize("file,right,keys", [
    ("lstm_2x32_emdl17", 472, GROUPED),
    *(pytest.param(file, right, GROUPED, marks=pytest.mark.slow) for file, right in (
        ("lstm_2x32", 457), ("lstm_2x64", 474), ("lstm_2x128", 459)))])
def test_their_networks_recognise_as_many_windows_in_every_strategy(
        shared: Path, on: OpenCLExecutor, file: str, right: int, keys: list[str]) -> None:
    folder, batch = shared / "data" / "mobirnn", 250
    windows = read_windows(folder / "har_test_500.npz", "theirs")
    sides = Sides(read_weights(folder / f"{file}.npz"), on, on, windows.x[:batch])
    with ready(sides, keys) as strategies:
        found = {key: over(s, windows.x, batch) for key, s in strategies.items()}
    first = found[keys[0]].argmax(1)
    assert int((first == windows.y).sum()) == right
    for key, scores in found.items():
        assert (scores.argmax(1) == first).all(), key
    if keys is GROUPED:
        with ready(replace(sides, windows=windows.x[:5]), [C]) as alone:
            np.testing.assert_array_equal(over(alone[C], windows.x[:5], 5), found[C_GROUPS][:5])
