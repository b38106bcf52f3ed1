"""Any text in UTF-8 as numbered characters, in windows of one more than the model sees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import Array, DataSet, settle
from handtorch.zoo.data.opened import text_of


def load_text(path: Path, characters: int, window: int) -> DataSet:
    """Every window of a text file is a sample; see `from_text`."""
    return from_text(text_of(path), str(path), characters, window)


def from_text(text: str, source: str, characters: int, window: int) -> DataSet:
    """Numbers below `characters`: those in use, by code point, if there are no more than that;
    else the most frequent, and the last number for all others. The last tenth is held out."""
    held = max(window, len(text) // 10)
    if len(text) - held < window:
        raise BadInput(f"the text {source}", why=f"it has {len(text)} characters, and two windows "
                                                 f"of {window} are needed", fix="a longer text")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    known, where = np.unique(codes, return_inverse=True)
    numbers = where.reshape(-1)
    if len(known) > characters:
        ranked = sorted(Counter(text).items(), key=lambda pair: (-pair[1], pair[0]))
        kept = sorted(ord(c) for c, _ in ranked[:characters - 1])
        table = np.full(len(known), characters - 1)
        table[np.searchsorted(known, kept)] = np.arange(len(kept))
        numbers = table[numbers]
    samples = settle(numbers.astype(np.int32))
    cut = len(text) - held
    return DataSet("text", source, (_windows(samples[:cut], window),),
                   (_windows(samples[cut:], window),))


def _windows(numbers: Array, window: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(numbers, window)
