"""Batches of a data set in the shapes that a model of the zoo takes; needs no torch.

`entry.feed(...)` and `open_feed(...)` give the same. The table FEEDS repeats what the models say of
themselves (`zoo/registry.py`), because a process that makes batches must not load torch; a test
compares the two for every model and form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Array, Arrays, DataSet, Part, rows_of, settle
from handtorch.zoo.data.find import (
    open_cifar10,
    open_har,
    open_mnist,
    open_moves,
    open_pairs,
    open_squad,
    open_text,
)
from handtorch.zoo.data.moves import STACK
from handtorch.zoo.data.pictures import resized

# Samples of a batch, and random numbers of that batch's own -> what the model takes.
Shaping = Callable[[Arrays, np.random.Generator], Arrays]
Opened = tuple[DataSet, Shaping]
CIFAR_MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(3, 1, 1)
CIFAR_SPREAD = np.array([0.247, 0.2435, 0.2616], np.float32).reshape(3, 1, 1)
NOISE, PIECE = 100, 1024


@dataclass(frozen=True)
class Feed:
    """Batch `index` is the same whenever it is asked for. Its arrays cannot be changed."""

    data: DataSet
    size: int
    seed: int
    part: Part
    shaping: Shaping

    @property
    def source(self) -> str:
        return self.data.source

    def batch(self, index: int) -> Arrays:
        arrays = self.data.part(self.part)
        rows = rows_of(len(arrays[0]), self.size, index, self.seed)
        rng = np.random.default_rng([self.seed, index, int(self.part == "train")])
        made = self.shaping(tuple(array[rows] for array in arrays), rng)
        return tuple(settle(np.ascontiguousarray(array)) for array in made)


def open_feed(model: str, size: int, *, form: str = "", small: bool = False, path: str = "",
              seed: int = 0, part: Part = "train") -> Feed:
    """The feed of a zoo model: `path` names its data, "generated" asks for generated ones, and
    without it they are looked for (docs/data.md). Everything random depends on `seed` alone."""
    if size < 1:
        raise BadInput(f"batches of {size}", why="a batch has at least 1 sample", fix="size=1")
    if part not in ("train", "held_out"):
        raise BadInput(f"the part {part!r}", why="a data set has train and held_out",
                       fix='part="train"')
    data, shaping = FEEDS.get(model, _classified)(model, form, small, path, seed)
    return Feed(data, size, seed, part, shaping)


def _scaled(pictures: Array, side: int) -> Array:
    """From 0 to 1. Grown here, batch by batch: 10,000 pictures of 224x224 would take 1.5 GB."""
    scaled: Array = resized(pictures, side, side).astype(np.float32) / np.float32(255)
    return scaled


def _shrunk(data: DataSet, side: int) -> DataSet:
    """What shrinks, shrinks once for all; in pieces, as a piece takes five times its room."""
    if side >= data.train[0].shape[-1]:
        return data
    parts = [(np.concatenate([resized(x[k:k + PIECE], side, side)
                              for k in range(0, len(x), PIECE)]), y)
             for x, y in (data.train, data.held_out)]
    return DataSet(data.name, data.source, parts[0], parts[1])


def _classified(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    tiny = 16 if model.startswith("DenseNet") else 32
    large = 299 if model == "Xception" else 224
    side = large if form == "imagenet" else tiny if small else 32

    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        x, y = samples
        return (_scaled(x, side) - CIFAR_MEAN) / CIFAR_SPREAD, y.astype(np.int64)
    return _shrunk(open_cifar10(path, seed), side), shape


def _imitated(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    side = 64 if form == "lsun" else 32

    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        noise = rng.standard_normal((len(samples[0]), NOISE, 1, 1), np.float32)
        return _scaled(samples[0], side) * 2 - 1, noise
    return open_cifar10(path, seed), shape


def _flat(side: int) -> Callable[[str, str, bool, str, int], Opened]:
    def opened(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
        def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
            x, y = samples
            return _scaled(x, side).reshape(len(x), side * side), y.astype(np.int64)
        return _shrunk(open_mnist(path, seed), side), shape
    return opened


def _characters(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        return _shifted(samples[0])
    return open_text(path, seed, 65, 26), shape


def _shifted(said: Array) -> Arrays:
    """What is seen, and what comes next."""
    wide = said.astype(np.int64)
    return wide[:, :-1], wide[:, 1:]


def _questions(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    words, length = (97, 16) if small else (30522, 128 if form == "squad128" else 384)

    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        text, segments, mask, spans = samples
        return (text.astype(np.int64), segments.astype(np.int64), mask, spans.astype(np.int64))
    return open_squad(path, seed, words, length), shape


def _sentences(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    words, length = ((23, 19), 7) if small else ((17191, 7709), 40)

    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        return (samples[0].astype(np.int64), *_shifted(samples[1]))
    return open_pairs(path, seed, words, length), shape


def _moves(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        frames, done, rewards, over = samples
        seen = frames.astype(np.float32) / np.float32(255)
        return (seen[:, :STACK], done.astype(np.int64), rewards, seen[:, 1:],
                over.astype(np.float32))
    return open_moves(path, seed, 44 if small else 84), shape


def _readings(model: str, form: str, small: bool, path: str, seed: int) -> Opened:
    def shape(samples: Arrays, rng: np.random.Generator) -> Arrays:
        return samples[0], samples[1].astype(np.int64)
    return open_har(path, seed), shape


# Every other model classifies pictures.
FEEDS: dict[str, Callable[[str, str, bool, str, int], Opened]] = {
    "CharCNN": _characters, "DCGAN": _imitated, "DQN": _moves, "BERT": _questions,
    "Seq2Seq": _sentences, "HarLSTM": _readings, "Model1": _flat(4), "Model2": _flat(4),
    "Model3": _flat(16), "Model4": _flat(28),
}
