"""The activity-recognition LSTM of the MobiRNN paper: 128 readings of 9 signals, 6 activities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

STEPS, SIGNALS, ACTIVITIES = 128, 9, 6


class HarLSTM(nn.Module):
    """A ReLU layer on each reading, stacked LSTMs, a linear layer on the last state."""

    def __init__(self, hidden: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.input = nn.Linear(SIGNALS, hidden)
        self.relu = nn.ReLU()
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, ACTIVITIES)

    def forward(self, readings: Tensor) -> Tensor:
        states, _ = self.lstm(self.relu(self.input(readings)))
        out: Tensor = self.out(states[:, -1])
        return out


def from_mobirnn(arrays: Mapping[str, NDArray[Any]]) -> HarLSTM:
    """The authors' trained weights (`w_in`, `lstm0_kernel`, ...) as a torch model.

    Their gates stand in the order i, g, f, o and 1 is added to f when it runs; torch has i, f, g,
    o and a second bias, which stays zero."""
    layers = sum(name.endswith("_kernel") for name in arrays)
    hidden = arrays["w_in"].shape[1]
    model = HarLSTM(hidden, layers)
    state: dict[str, Any] = {
        "input.weight": arrays["w_in"].T, "input.bias": arrays["b_in"],
        "out.weight": arrays["w_out"].T, "out.bias": arrays["b_out"]}
    for layer in range(layers):
        kernel = torch.tensor(arrays[f"lstm{layer}_kernel"])
        i, g, f, o = kernel.T.chunk(4)
        weight = torch.cat([i, f, g, o])
        bi, bg, bf, bo = torch.tensor(arrays[f"lstm{layer}_bias"]).chunk(4)
        state |= {f"lstm.weight_ih_l{layer}": weight[:, :hidden],
                  f"lstm.weight_hh_l{layer}": weight[:, hidden:],
                  f"lstm.bias_ih_l{layer}": torch.cat([bi, bf + 1, bg, bo]),
                  f"lstm.bias_hh_l{layer}": torch.zeros(4 * hidden)}
    model.load_state_dict({name: torch.as_tensor(array) for name, array in state.items()})
    return model
