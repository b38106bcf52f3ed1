"""BERT (Devlin et al. 2018) with its question-answering head, named as in the usual checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class BertSize:
    """BERT-base unless told otherwise."""

    words: int = 30522
    width: int = 768
    layers: int = 12
    heads: int = 12
    inner: int = 3072
    positions: int = 512
    dropout: float = 0.1


class SelfAttention(nn.Module):
    """Each place looks at every place that `mask` (batch, time) allows."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.query = nn.Linear(size.width, size.width)
        self.key = nn.Linear(size.width, size.width)
        self.value = nn.Linear(size.width, size.width)
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (self._by_head(layer(x))
                             for layer in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~mask[:, None, None, :], -10000.0)
        mixed = self.dropout(scores.softmax(-1)) @ value
        out: Tensor = mixed.transpose(1, 2).flatten(2)
        return out

    def _by_head(self, x: Tensor) -> Tensor:
        out: Tensor = x.unflatten(2, (self.heads, -1)).transpose(1, 2)
        return out


class AddAndNorm(nn.Module):
    """A linear layer, added to `before`, then normalised."""

    def __init__(self, inputs: int, size: BertSize) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, size.width)
        self.LayerNorm = nn.LayerNorm(size.width, eps=1e-12)
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        out: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + before)
        return out


class BertLayer(nn.Module):
    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(size),
                                        "output": AddAndNorm(size.width, size)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size.width, size.inner)})
        self.output = AddAndNorm(size.inner, size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        inner = nn.functional.gelu(self.intermediate["dense"](x))
        out: Tensor = self.output(inner, x)
        return out


class Embeddings(nn.Module):
    """Word, place and segment, added and normalised."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(size.words, size.width, padding_idx=0)
        self.position_embeddings = nn.Embedding(size.positions, size.width)
        self.token_type_embeddings = nn.Embedding(2, size.width)
        self.LayerNorm = nn.LayerNorm(size.width, eps=1e-12)
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.word_embeddings(words) + self.token_type_embeddings(segments)
        out: Tensor = self.dropout(self.LayerNorm(x + self.position_embeddings(places)))
        return out


class BertForQuestionAnswering(nn.Module):
    """Words, segments, mask (batch, time) -> scores for start and end (batch, time, 2)."""

    def __init__(self, size: BertSize | None = None) -> None:
        super().__init__()
        size = size or BertSize()
        layers = nn.ModuleList(BertLayer(size) for _ in range(size.layers))
        self.bert = nn.ModuleDict({"embeddings": Embeddings(size),
                                   "encoder": nn.ModuleDict({"layer": layers})})
        self.qa_outputs = nn.Linear(size.width, 2)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0.0, 0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, words: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        x = self.bert["embeddings"](words, segments)
        for layer in self.bert["encoder"]["layer"]:  # type: ignore[index]
            x = layer(x, mask)
        out: Tensor = self.qa_outputs(x)
        return out


def span_loss(scores: Tensor, spans: Tensor) -> Tensor:
    """Mean of the cross-entropies of start and end; `spans` is (batch, 2)."""
    return (cross_entropy(scores[..., 0], spans[:, 0])
            + cross_entropy(scores[..., 1], spans[:, 1])) / 2
