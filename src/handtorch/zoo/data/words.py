"""Words become numbers: the simplest tokenising that serves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

PAD, UNKNOWN, BEGIN, END = range(4)         # END also stands between a question and its text
FIRST_WORD = 4
_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=64)                      # the questions on one text follow each other
def tokens(text: str) -> tuple[tuple[str, int, int], ...]:
    """Runs of letters and digits, and each other sign by itself, in lower case: the word, where it
    begins and where it ends."""
    return tuple((m.group().lower(), m.start(), m.end()) for m in _TOKEN.finditer(text))


def vocabulary(texts: Iterable[Sequence[str]], most: int) -> dict[str, int]:
    """Numbers below `most` for the most frequent words; ties by spelling. Others are UNKNOWN."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: FIRST_WORD + k for k, word in enumerate(ranked[:max(0, most - FIRST_WORD)])}
