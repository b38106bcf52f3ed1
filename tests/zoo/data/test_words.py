from __future__ import annotations

from handtorch.zoo.data.words import FIRST_WORD, tokens, vocabulary


def test_words_signs_and_where_they_stand() -> None:
    assert tokens("It's 3.5 Größe") == (
        ("it", 0, 2), ("'", 2, 3), ("s", 3, 4), ("3", 5, 6), (".", 6, 7), ("5", 7, 8),
        ("größe", 9, 14))


def test_the_frequent_words_get_numbers_and_ties_are_spelled() -> None:
    assert vocabulary([["b", "a"], ["c", "c"], ["d"]], FIRST_WORD + 3) == {
        "c": FIRST_WORD, "a": FIRST_WORD + 1, "b": FIRST_WORD + 2}
    assert vocabulary([["a"]], 2) == {}
