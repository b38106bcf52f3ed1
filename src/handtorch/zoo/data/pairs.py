"""IWSLT'15 English - Vietnamese: two texts whose lines belong together, one sentence each.

    one sample      source: words of the sentence, PAD to the length
                    target: BEGIN, words, END, PAD to one more than the length

Longer sentences are cut; pairs with an empty side are left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Array, Arrays, DataSet
from handtorch.zoo.data.opened import bad_line, text_of
from handtorch.zoo.data.words import BEGIN, END, UNKNOWN, vocabulary

Pair = tuple[list[str], list[str]]
FROM, TO = ".en", ".vi"
_FIX = "name a folder with train.en and train.vi, and perhaps tst2012.* and tst2013.*"


def load_pairs(path: Path, words: tuple[int, int], length: int) -> DataSet:
    """From a folder, or one of two files. Of several pairs of files the one with `train` in its
    name, else all but the last, is trained on, and the last is held out; of one, its last tenth."""
    stems = _stems(path)
    if len(stems) == 1:
        train = read_pairs(stems[0])
        cut = len(train) - max(1, len(train) // 10)
        return from_pairs(train[:cut], train[cut:], str(path), words, length)
    chosen = [s for s in stems if "train" in s.name] or stems[:-1]
    held = next(s for s in reversed(stems) if s not in chosen or len(stems) == len(chosen))
    trained = [pair for stem in chosen if stem != held for pair in read_pairs(stem)]
    return from_pairs(trained, read_pairs(held), str(path), words, length)


def _stems(path: Path) -> list[Path]:
    """The paths without their ends, sorted, of which both sides are there."""
    if path.is_dir():
        found = sorted(p.with_suffix("") for p in path.glob(f"*{FROM}"))
        stems = [s for s in found if s.with_name(s.name + TO).exists()
                 and not s.name.startswith("vocab")]        # lists of words, published beside
    else:
        stems = [path.with_suffix("")] if path.suffix in (FROM, TO) else []
    if not stems:
        raise BadInput(f"no pairs of sentences in {path}",
                       why=f"no two files that differ in {FROM} and {TO} alone are there", fix=_FIX)
    return stems


def read_pairs(stem: Path) -> list[Pair]:
    """The words of both sides, line by line; words stand between spaces, as published."""
    sides = [stem.with_name(stem.name + end) for end in (FROM, TO)]
    first, second = (text_of(side).removesuffix("\n").split("\n") for side in sides)
    if len(first) != len(second):
        shorter = sides[0] if len(first) < len(second) else sides[1]
        least = min(len(first), len(second))
        raise bad_line(shorter, least + 1, f"the file ends after {least} lines, the other side has "
                                           f"{max(len(first), len(second))}")
    pairs = [(a.split(), b.split()) for a, b in zip(first, second, strict=True)]
    return [pair for pair in pairs if pair[0] and pair[1]]


def from_pairs(train: Sequence[Pair], held_out: Sequence[Pair], source: str, words: tuple[int, int],
               length: int) -> DataSet:
    """Numbers below `words` on each side, for the most frequent words of what is trained on."""
    if not train or not held_out:
        raise BadInput(f"the pairs of sentences from {source}",
                       why=f"{len(train)} to train on and {len(held_out)} held out", fix=_FIX)
    said = [vocabulary((pair[side] for pair in train), words[side]) for side in (0, 1)]

    def part(pairs: Sequence[Pair]) -> Arrays:
        return (_rows([p[0][:length] for p in pairs], said[0], length),
                _rows([["", *p[1][:length - 1]] for p in pairs], said[1], length + 1, END))
    return DataSet("iwslt15", source, part(train), part(held_out))


def _rows(sentences: Sequence[Sequence[str]], numbers: dict[str, int], length: int,
          last: int | None = None) -> Array:
    """An empty word is BEGIN; `last`, if there is one, follows the last word."""
    rows = np.zeros((len(sentences), length), np.int32)
    for k, words in enumerate(sentences):
        row = [numbers.get(word, UNKNOWN) if word else BEGIN for word in words]
        row += [] if last is None else [last]
        rows[k, :len(row)] = row
    return rows
