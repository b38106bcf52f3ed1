from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadFile
from handtorch.zoo.data.squad import Question, from_questions, load_squad, read_squad
from handtorch.zoo.data.words import BEGIN, END, FIRST_WORD
from tests.zoo.data.damage import changes, cuts, refused_or, text_of_error

TEXT = "The Panthers gave up 308 points. Größe matters."


def told(*questions: tuple[str, str, int]) -> dict[str, Any]:
    qas = [{"id": str(k), "question": q, "answers": [{"text": a, "answer_start": s}]}
           for k, (q, a, s) in enumerate(questions)]
    return {"version": "1.1", "data": [{"title": "x", "paragraphs": [
        {"context": TEXT, "qas": qas}]}]}


GOOD = told(("How many points?", "308", 21), ("What matters?", "Größe", 33))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD))
    assert read_squad(path) == [Question("How many points?", TEXT, 21, "308"),
                                Question("What matters?", TEXT, 33, "Größe")]
    data = load_squad(path, 50, 32)
    text, segments, mask, spans = (array[0] for array in data.train)
    ends = np.flatnonzero(text == END)
    assert text[0] == BEGIN and mask.sum() == ends[-1] + 1 and text[ends[-1] + 1:].sum() == 0
    assert np.array_equal(segments == 1, mask & (np.arange(32) > ends[0]))
    assert spans[0] == spans[1] and text[spans[0]] >= FIRST_WORD
    assert spans[0] - ends[0] - 1 == TEXT.lower().split().index("308")


@settings(max_examples=30, deadline=None)
@given(st.integers(12, 40), st.integers(0, 60), st.integers(1, 30), st.integers(0, 9))
def test_the_answer_is_where_the_span_says(length: int, before: int, asked: int, many: int) -> None:
    """Cut to whatever length: the span's first word is the answer's."""
    words = [f"w{k}" for k in range(before)]
    context = " ".join([*words, "answer", *(f"v{k}" for k in range(many))])
    start = context.index("answer")
    one = Question(" ".join(["q"] * asked), context, start, "answer")
    data = from_questions([one] * 9, [one], "a", 200, length)
    text, segments, mask, spans = (array[0] for array in data.held_out)
    assert mask[spans[0]] and segments[spans[0]] == 1 and spans[0] == spans[1]
    # Every word of the context stands in it once, and of `vocabulary`'s ties spelling decides.
    ranked = sorted({*context.split()})
    ranked = ["q", *ranked] if asked > 1 else sorted([*ranked, "q"])
    assert text[spans[0]] == FIRST_WORD + ranked.index("answer")


def test_every_cut_is_refused_and_a_change_at_most_changes_words(tmp_path: Path) -> None:
    data = json.dumps(GOOD, ensure_ascii=False).encode()

    def answers_stand(found: list[Question]) -> bool:
        return all(q.context[q.start:].startswith(q.answer) for q in found)
    refused = refused_or(tmp_path / "a.json", changes(data, range(len(data))), read_squad,
                         answers_stand)
    assert refused > len(data)
    assert refused_or(tmp_path / "a.json", cuts(data), read_squad, lambda _: False) == len(data)


def test_the_place_of_what_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"ä": 1,\n "data": oh}')
    with pytest.raises(BadFile) as error:
        read_squad(path)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 19: line 2, column 10: not JSON (Expecting value)\n"
        "  try: download it again; it was cut or changed on the way, or is another file")
    path.write_text("[" * 100_000)
    with pytest.raises(BadFile, match="JSON that cannot be read"):
        read_squad(path)


@pytest.mark.parametrize(("wrong", "said"), [
    (told(("q", "308", 20)), r"data\[0\]\.paragraphs\[0\]\.qas\[0\]\.answers\[0\]: '308' does not "
                             r"stand at character 20 of the context, but ' 308 points\. Größe"),
    (told(("q", "308", -1)), "does not stand at character -1"),
    ({"data": [{"paragraphs": {}}]}, r"data\[0\]: 'paragraphs' is a dict, expected a list"),
    ({"data": [3]}, r"data\[0\]: has no 'paragraphs'"),
    ([], "the file: has no 'data'"),
    ({"data": []}, "it has no question with an answer"),
])
def test_what_has_another_form(tmp_path: Path, wrong: Any, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(wrong))
    with pytest.raises(BadFile, match=said):
        read_squad(path)


def test_a_folder_as_published(tmp_path: Path) -> None:
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        (tmp_path / name).write_text(json.dumps(GOOD))
    data = load_squad(tmp_path, 50, 32)
    assert len(data.train[0]) == len(data.held_out[0]) == 2
    (tmp_path / "train-v1.1.json").rename(tmp_path / "other.json")
    with pytest.raises(BadFile, match=r"there are 2 other \.json files"):
        load_squad(tmp_path, 50, 32)
