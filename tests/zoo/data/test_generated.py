"""Generated data: marked, the same for a seed, and with something in them to learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from handtorch.zoo.data import generated
from handtorch.zoo.data.dataset import DataSet
from handtorch.zoo.data.words import BEGIN, END, PAD

MAKERS: dict[str, Callable[[int], DataSet]] = {
    "pictures": lambda seed: generated.generate_pictures("cifar10", 3, 8, seed),
    "windows": generated.generate_windows,
    "text": lambda seed: generated.generate_text(65, 26, seed),
    "questions": lambda seed: generated.generate_questions(97, 16, seed),
    "pairs": lambda seed: generated.generate_pairs((200, 200), 20, seed),
}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "PICTURES", (60, 20))
    monkeypatch.setattr(generated, "SENTENCES", 60)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_marked_and_the_same_for_a_seed(make: Callable[[int], DataSet]) -> None:
    data, again, other = make(1), make(1), make(2)
    assert data.source == "generated"
    for part in ("train", "held_out"):
        for a, b in zip(data.part(part), again.part(part), strict=True):    # type: ignore[arg-type]
            assert np.array_equal(a, b)
    assert not np.array_equal(data.train[0][:9], other.train[0][:9])


def test_the_answer_follows_what_was_asked_for() -> None:
    text, _, _, spans = generated.generate_questions(97, 16, 0).held_out
    for row, (start, end) in zip(text, spans, strict=True):
        assert row[0] == BEGIN and row[4] == END and start == end
        asked = row[3]                          # what is X
        assert row[start - 2] == asked and row[start - 1] == row[2]


def test_a_translation_goes_word_by_word() -> None:
    meaning: dict[int, int] = {}
    for source, target in zip(*generated.generate_pairs((500, 500), 20, 0).train, strict=True):
        words = source[source != PAD]
        for a, b in zip(words, target[1:1 + len(words)], strict=True):
            if b != END:                        # the last of the longest has no place
                assert meaning.setdefault(int(a), int(b)) == b
    assert len(meaning) > 30
