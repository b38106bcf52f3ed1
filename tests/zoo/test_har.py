"""The MobiRNN authors' own weights, in our LSTM, on their own test windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from handtorch.zoo.har import HarLSTM, from_mobirnn


@pytest.mark.parametrize("file,right", [("lstm_2x32", 457), ("lstm_2x64", 474),
                                        ("lstm_2x32_emdl17", 472)])
def test_their_weights_recognise_as_many_windows(shared: Path, file: str, right: int) -> None:
    folder = shared / "data" / "mobirnn"
    with np.load(folder / f"{file}.npz", allow_pickle=False) as arrays:
        model = from_mobirnn(dict(arrays)).eval()
    with np.load(folder / "har_test_500.npz", allow_pickle=False) as windows, torch.no_grad():
        found = model(torch.tensor(windows["x"])).argmax(1) + 1
        assert int((found == torch.tensor(windows["y"])).sum()) == right


def test_sizes_of_the_paper() -> None:
    """The paper counts the LSTM alone, with one bias: 2 x 128 has 263 thousand."""
    lstm = HarLSTM(128, 2).lstm
    assert sum(p.numel() for n, p in lstm.named_parameters() if "bias_hh" not in n) == 263_168
