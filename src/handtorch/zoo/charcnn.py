"""Char-CNN as the training-characterisation paper lists it: 2 layers, LSTM + convolution, on
Shakespeare, 1 M parameters, 23 M multiply-adds.

The paper gives no more, and the net it cites (Zhang et al. 2015) has no LSTM. Ours is chosen to
meet the printed figures: a causal convolution over embedded characters, one LSTM, and the next
character predicted at each of 25 places."""

from __future__ import annotations

from torch import Tensor, nn

CHARACTERS = 65                             # distinct ones in the tiny Shakespeare text
LENGTH = 25


class CharCNN(nn.Module):
    """Characters (batch, time) -> scores of the next one (batch, characters, time)."""

    def __init__(self, characters: int = CHARACTERS, embedded: int = 128, maps: int = 256,
                 hidden: int = 320, kernel: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedded)
        self.past = nn.ConstantPad1d((kernel - 1, 0), 0.0)      # no look at what is to come
        self.conv = nn.Conv1d(embedded, maps, kernel)
        self.relu = nn.ReLU()
        self.lstm = nn.LSTM(maps, hidden, batch_first=True)
        self.out = nn.Linear(hidden, characters)

    def forward(self, text: Tensor) -> Tensor:
        maps = self.relu(self.conv(self.past(self.embedding(text).transpose(1, 2))))
        states, _ = self.lstm(maps.transpose(1, 2))
        out: Tensor = self.out(states).transpose(1, 2)
        return out
