"""The activity-recognition LSTM of the MobiRNN paper: 128 readings of 9 signals, 6 activities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from handtorch.kernels.lstm_weights import LstmWeights
from handtorch.zoo.har_data import ACTIVITIES, SIGNALS, STEPS

__all__ = ["ACTIVITIES", "SIGNALS", "STEPS", "HarLSTM", "har_model", "har_training"]


class HarLSTM(nn.Module):
    """A ReLU layer on each reading, stacked LSTMs, a linear layer on the last state."""

    def __init__(self, hidden: int = 32, layers: int = 2, signals: int = SIGNALS,
                 classes: int = ACTIVITIES) -> None:
        super().__init__()
        self.input = nn.Linear(signals, hidden)
        self.relu = nn.ReLU()
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, readings: Tensor) -> Tensor:
        states, _ = self.lstm(self.relu(self.input(readings)))
        out: Tensor = self.out(states[:, -1])
        return out


def seeded(hidden: int = 32, layers: int = 2, seed: int = 0) -> HarLSTM:
    """The same weights for the same seed, in every process; torch's own numbers are left alone."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return HarLSTM(hidden, layers)


def har_model(weights: LstmWeights) -> HarLSTM:
    """The network as a torch module; torch's second bias of each layer stays zero."""
    h = weights.hidden
    model = HarLSTM(h, weights.layers, weights.signals, weights.classes)
    state: dict[str, Any] = {"input.weight": weights.w_in.T, "input.bias": weights.b_in,
                             "out.weight": weights.w_out.T, "out.bias": weights.b_out}
    for layer, (kernel, bias) in enumerate(zip(weights.kernels, weights.biases, strict=True)):
        state |= {f"lstm.weight_ih_l{layer}": kernel[:h].T, f"lstm.bias_ih_l{layer}": bias,
                  f"lstm.weight_hh_l{layer}": kernel[h:].T,
                  f"lstm.bias_hh_l{layer}": np.zeros_like(bias)}
    model.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    return model


def har_training(seed: int, rate: float) -> tuple[HarLSTM, nn.Module, torch.optim.AdamW]:
    """A network to train from scratch, its loss and its optimizer; the same for the same seed.

    It starts out remembering: 1 on top of the forget gates, as in the authors' network."""
    model = seeded(seed=seed)
    hidden = model.lstm.hidden_size
    with torch.no_grad():
        for name, parameter in model.lstm.named_parameters():
            if name.startswith("bias_ih"):
                parameter[hidden:2 * hidden] += 1
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    return model, nn.CrossEntropyLoss(label_smoothing=0.1), optimizer
