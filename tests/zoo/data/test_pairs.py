from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data.pairs import load_pairs, read_pairs
from handtorch.zoo.data.words import BEGIN, END, FIRST_WORD, PAD, UNKNOWN
from tests.zoo.data.damage import changes, cuts, refused_or, text_of_error

WORDS = st.lists(st.text("abcä", min_size=1, max_size=3), max_size=5)


def write(stem: Path, first: list[str], second: list[str]) -> None:
    for end, lines in ((".en", first), (".vi", second)):
        stem.with_name(stem.name + end).write_text("".join(f"{line}\n" for line in lines))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory,
                    pairs: list[tuple[list[str], list[str]]]) -> None:
    stem = tmp_path_factory.mktemp("s") / "train"
    write(stem, [" ".join(a) for a, _ in pairs], [" ".join(b) for _, b in pairs])
    assert read_pairs(stem) == [pair for pair in pairs if pair[0] and pair[1]]


def test_a_folder_as_published(tmp_path: Path) -> None:
    write(tmp_path / "train", ["a b", "a c d e", "a"], ["x y", "x z", "y y"])
    write(tmp_path / "tst2012", ["never read"], ["wrong"])
    write(tmp_path / "tst2013", ["a q"], ["x q"])
    write(tmp_path / "vocab", ["a", "b"], ["x"])
    data = load_pairs(tmp_path, (8, 6), 3)
    a, x, y = FIRST_WORD, FIRST_WORD + 1, FIRST_WORD
    assert data.train[0][0].tolist() == [a, a + 1, PAD]
    assert data.train[1].tolist() == [[BEGIN, x, y, END], [BEGIN, x, UNKNOWN, END],
                                      [BEGIN, y, y, END]]
    assert data.held_out[0].tolist() == [[a, UNKNOWN, PAD]]
    assert data.held_out[1].tolist() == [[BEGIN, x, UNKNOWN, END]]


def test_without_a_training_file_the_last_is_held_out(tmp_path: Path) -> None:
    write(tmp_path / "tst2012", ["a"] * 4, ["x"] * 4)
    write(tmp_path / "tst2013", ["a"] * 3, ["x"] * 3)
    data = load_pairs(tmp_path, (8, 6), 3)
    assert (len(data.train[0]), len(data.held_out[0])) == (4, 3)
    one = load_pairs(tmp_path / "tst2012.en", (8, 6), 3)
    assert (len(one.train[0]), len(one.held_out[0])) == (3, 1)


def test_cut_or_changed(tmp_path: Path) -> None:
    """A line that is missing is noticed, and half a letter; another letter is not."""
    write(tmp_path / "train", ["a b", "c d", "e"], ["x", "y", "ư"])
    path = tmp_path / "train.vi"
    data = path.read_bytes()

    def read(file: Path) -> object:
        return read_pairs(file.with_suffix(""))
    # Only the last newline may go; the last letter has two bytes.
    assert refused_or(path, cuts(data), read, lambda pairs: len(pairs) == 3) == len(data) - 1
    refused = refused_or(path, changes(data, range(len(data))), read, lambda pairs: len(pairs) <= 3)
    assert refused >= 6


def test_sides_of_different_length(tmp_path: Path) -> None:
    write(tmp_path / "train", ["a", "b", "c"], ["x"])
    with pytest.raises(BadFile) as error:
        load_pairs(tmp_path, (8, 6), 3)
    assert text_of_error(error, tmp_path / "train.vi") == (
        "FILE cannot be used: in line 2: the file ends after 1 lines, the other side has 3\n"
        "  try: download it again; it was cut or changed on the way, or is another file")
    (tmp_path / "train.vi").unlink()
    with pytest.raises(BadInput, match=r"no two files that differ in \.en and \.vi alone"):
        load_pairs(tmp_path, (8, 6), 3)
