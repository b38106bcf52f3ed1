"""Data of the shapes of the real ones, from a seed, where there are none; marked "generated".

Each can be learnt: classes differ, the next character depends on the last, the answer follows the
word that was asked for, a translation goes word by word. No figure of accuracy on them means
anything outside."""

from __future__ import annotations

import numpy as np

from handtorch.zoo.data.dataset import GENERATED, Arrays, DataSet
from handtorch.zoo.data.har_folder import ACTIVITIES, SIGNALS, STEPS
from handtorch.zoo.data.pairs import Pair, from_pairs
from handtorch.zoo.data.pictures import CLASSES, resized
from handtorch.zoo.data.squad import Question, from_questions
from handtorch.zoo.data.text import from_text

PICTURES = (2000, 500)                      # to train on, held out
SENTENCES = 600
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def generate_pictures(name: str, channels: int, side: int, seed: int) -> DataSet:
    """A coarse pattern for each class, dimmed and moved at random, under noise."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (CLASSES, channels, 5, 5), dtype=np.uint8)
    patterns = resized(coarse, side, side).astype(np.float32)

    def part(count: int) -> Arrays:
        labels = rng.integers(CLASSES, size=count).astype(np.uint8)
        moved = np.stack([np.roll(patterns[label], shift, (1, 2)) for label, shift in
                          zip(labels, rng.integers(-2, 3, (count, 2)), strict=True)])
        noise = rng.normal(0, 32, moved.shape)
        dim = rng.uniform(0.6, 1.0, (count, 1, 1, 1))
        return np.clip(moved * dim + noise, 0, 255).astype(np.uint8), labels
    return DataSet(name, GENERATED, part(PICTURES[0]), part(PICTURES[1]))


def generate_windows(seed: int) -> DataSet:
    """A swing for each activity: its speed, its strength and the way the phone lies."""
    rng = np.random.default_rng(seed)
    speed = np.linspace(0.05, 0.6, ACTIVITIES)
    strength = rng.uniform(0.2, 1.0, (ACTIVITIES, len(SIGNALS)))
    lies = rng.uniform(-0.5, 0.5, (ACTIVITIES, len(SIGNALS)))

    def part(count: int) -> Arrays:
        labels = rng.integers(ACTIVITIES, size=count).astype(np.int8)
        phase = rng.uniform(0, 2 * np.pi, (count, 1, len(SIGNALS)))
        swing = np.sin(np.arange(STEPS)[None, :, None] * speed[labels][:, None, None] + phase)
        clean = swing * strength[labels][:, None] + lies[labels][:, None]
        return (clean + rng.normal(0, 0.1, clean.shape)).astype(np.float32), labels
    return DataSet("har", GENERATED, part(PICTURES[0]), part(PICTURES[1]))


def generate_text(characters: int, window: int, seed: int) -> DataSet:
    """Words of a small language, the frequent ones more often; one sentence a line."""
    rng = np.random.default_rng(seed)
    words = _language(rng, 200)
    lines = [" ".join(_sentence(rng, words, 9)) for _ in range(4 * SENTENCES)]
    return from_text("\n".join(lines), GENERATED, characters, window)


def generate_questions(words: int, length: int, seed: int) -> DataSet:
    """`what is X` has the word after `X is` as its answer; X stands once in the text."""
    rng = np.random.default_rng(seed)
    known = _language(rng, 80)
    asked = []
    for _ in range(SENTENCES):
        around = [str(w) for w in rng.choice(known[10:], 8, replace=False)]
        subject, answer = around[:2]
        before, after = " ".join(around[2:5]), " ".join(around[5:])
        context = f"{before} {subject} is {answer} {after}"
        start = len(f"{before} {subject} is ")
        asked.append(Question(f"what is {subject}", context, start, answer))
    return from_questions(asked, None, GENERATED, words, length)


def generate_pairs(words: tuple[int, int], length: int, seed: int) -> DataSet:
    """Each word has one translation, in the same place."""
    rng = np.random.default_rng(seed)
    first, second = _language(rng, 120), _language(rng, 120)
    meaning = dict(zip(first, second, strict=True))
    pairs: list[Pair] = []
    for _ in range(SENTENCES):
        said = _sentence(rng, first, min(length, 20))
        pairs.append((said, [meaning[word] for word in said]))
    cut = SENTENCES - SENTENCES // 10
    return from_pairs(pairs[:cut], pairs[cut:], GENERATED, words, length)


def _language(rng: np.random.Generator, count: int) -> list[str]:
    """Different words, in order."""
    found: dict[str, None] = {}
    while len(found) < count:
        letters = rng.choice(list(LETTERS), rng.integers(2, 7))
        found["".join(letters)] = None
    return list(found)


def _sentence(rng: np.random.Generator, words: list[str], most: int) -> list[str]:
    """Two words or more; the first of a language are the frequent ones."""
    ranks = (len(words) * rng.random(rng.integers(2, most + 1)) ** 2).astype(int)
    return [words[rank] for rank in ranks]
