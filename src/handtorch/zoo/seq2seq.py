"""Sequence to sequence: LSTM encoder and decoder with attention, for IWSLT'15 English - Vietnamese.

Sutskever et al. 2014 with the attention of Luong et al. 2015 (`dot`, without input feeding, so the
decoder runs over the whole sentence at once). Vocabulary and width are those of the public IWSLT'15
set-up: 17,191 English and 7,709 Vietnamese words, 2 layers of 512. Training is by teacher forcing:
the decoder is fed the true words, one place late."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LENGTH = 40


class Seq2Seq(nn.Module):
    """Source (batch, time), words said so far (batch, time) -> scores (batch, words, time)."""

    def __init__(self, source_words: int = 17191, words: int = 7709, width: int = 512,
                 layers: int = 2, dropout: float = 0.2) -> None:
        super().__init__()
        self.source = nn.Embedding(source_words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.decoder = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.attend = nn.Linear(2 * width, width, bias=False)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        memory, state = self.encoder(self.source(source))
        states, _ = self.decoder(self.target(said), state)
        weights = torch.bmm(states, memory.transpose(1, 2)).softmax(-1)
        both = torch.cat([torch.bmm(weights, memory), states], -1)
        out: Tensor = self.out(torch.tanh(self.attend(both))).transpose(1, 2)
        return out
