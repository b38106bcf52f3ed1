from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadInput
from handtorch.zoo.data.text import from_text, load_text


@settings(max_examples=30, deadline=None)
@given(st.text(st.characters(codec="utf-8"), min_size=12, max_size=80), st.integers(2, 70))
def test_any_text_becomes_numbers_in_range(text: str, characters: int) -> None:
    data = from_text(text, "a", characters, 4)
    train, held_out = data.train[0], data.held_out[0]
    together = np.concatenate([train[:, 0], train[-1, 1:], held_out[:, 0], held_out[-1, 1:]])
    assert len(together) == len(text) and together.max() < characters and together.min() >= 0
    if len(set(text)) <= characters:                    # then nothing is lost
        known = sorted(set(text))
        assert "".join(known[n] for n in together) == text


def test_the_rare_ones_share_the_last_number() -> None:
    data = from_text("aaabbbcd" * 3, "a", 3, 2)
    assert data.train[0][:7, 0].tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_a_short_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("short")
    with pytest.raises(BadInput) as error:
        load_text(path, 65, 26)
    assert str(error.value) == (f"the text {path}: it has 5 characters, and two windows of 26 are "
                                "needed\n  try: a longer text")
