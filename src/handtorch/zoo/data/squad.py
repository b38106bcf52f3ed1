"""SQuAD (version 1.1 or 2.0) as numbered words: question, text, and the span of the answer.

    one sample      BEGIN question END text END PAD ... ; segment 1 is the text; the mask is true up
                    to the last END; the span is the places of the answer's first and last word

A text that is too long is cut around the answer. Questions without an answer are left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from handtorch.errors import BadFile
from handtorch.zoo.data.dataset import Arrays, DataSet
from handtorch.zoo.data.opened import bad_at, text_of
from handtorch.zoo.data.words import BEGIN, END, UNKNOWN, tokens, vocabulary

T = TypeVar("T")
_AS_PUBLISHED = "a file as published: data, paragraphs, context, qas, question, answers"


@dataclass(frozen=True)
class Question:
    question: str
    context: str
    start: int                              # of the answer, in characters of the context
    answer: str


def load_squad(path: Path, words: int, length: int) -> DataSet:
    """From one file, of which the last tenth is held out, or a folder with train-v*.json and
    dev-v*.json."""
    if path.is_dir():
        train, dev = (sorted(path.glob(f"{part}-v*.json")) for part in ("train", "dev"))
        if train and dev:
            asked = read_squad(train[-1])
            return from_questions(asked, read_squad(dev[-1]), str(path), words, length)
        one = sorted(path.glob("*.json"))
        if len(one) != 1:
            raise BadFile(f"{path} cannot be used", fix=_AS_PUBLISHED,
                          why=f"expected train-v*.json and dev-v*.json, or one file; there are "
                              f"{len(one)} other .json files")
        path = one[0]
    return from_questions(read_squad(path), None, str(path), words, length)


def read_squad(path: Path) -> list[Question]:
    """Every question with an answer that stands where the file says."""
    text = text_of(path)
    try:
        told = json.loads(text)
    except json.JSONDecodeError as e:
        at = len(text[:e.pos].encode())
        raise bad_at(path, at, f"line {e.lineno}, column {e.colno}: not JSON ({e.msg})") from None
    except (ValueError, RecursionError) as e:
        raise bad_at(path, 0, f"JSON that cannot be read ({e})") from None
    found = list(_questions(path, told))
    if not found:
        raise BadFile(f"{path} cannot be used", why="it has no question with an answer",
                      fix=_AS_PUBLISHED)
    return found


def _questions(path: Path, told: Any) -> Iterator[Question]:
    for a, article in enumerate(_get(path, told, "the file", "data", list)):
        at = f"data[{a}]"
        for p, paragraph in enumerate(_get(path, article, at, "paragraphs", list)):
            inner = f"{at}.paragraphs[{p}]"
            context = _get(path, paragraph, inner, "context", str)
            for q, asked in enumerate(_get(path, paragraph, inner, "qas", list)):
                here = f"{inner}.qas[{q}]"
                answers = _get(path, asked, here, "answers", list)
                if answers:
                    yield _question(path, here, context, asked, answers[0])


def _question(path: Path, here: str, context: str, asked: Any, answer: Any) -> Question:
    question = _get(path, asked, here, "question", str)
    first = f"{here}.answers[0]"
    start, text = _get(path, answer, first, "answer_start", int), _get(path, answer, first, "text",
                                                                      str)
    if start < 0 or not text or context[start:start + len(text)] != text:
        raise _wrong(path, first, f"{text[:40]!r} does not stand at character {start} of the "
                                  f"context, but {context[max(0, start):][:40]!r}")
    return Question(question, context, start, text)


def _get(path: Path, told: Any, where: str, name: str, kind: type[T]) -> T:
    if type(told) is not dict or name not in told:
        raise _wrong(path, where, f"has no {name!r}")
    found = told[name]
    if type(found) is not kind:
        raise _wrong(path, where, f"{name!r} is a {type(found).__name__}, expected a "
                                  f"{kind.__name__}")
    return found


def _wrong(path: Path, where: str, why: str) -> BadFile:
    return BadFile(f"{path} cannot be used", why=f"{where}: {why}", fix=_AS_PUBLISHED)


def from_questions(train: Sequence[Question], held_out: Sequence[Question] | None, source: str,
                   words: int, length: int) -> DataSet:
    """Numbers below `words` for the most frequent words of what is trained on; `length` places."""
    if held_out is None:
        cut = len(train) - max(1, len(train) // 10)
        train, held_out = train[:cut], train[cut:]
    lists = ([w for part in (q.question, q.context) for w, _, _ in tokens(part)] for q in train)
    numbers = vocabulary(lists, words)
    parts = [_part(some, numbers, length) for some in (train, held_out)]
    return DataSet("squad", source, parts[0], parts[1])


def _part(asked: Sequence[Question], numbers: dict[str, int], length: int) -> Arrays:
    text = np.zeros((len(asked), length), np.int32)
    segments, mask = np.zeros((len(asked), length), np.int8), np.zeros((len(asked), length), bool)
    spans = np.zeros((len(asked), 2), np.int32)
    for k, one in enumerate(asked):
        row, second, spans[k] = _encoded(one, numbers, length)
        text[k, :len(row)], mask[k, :len(row)], segments[k, second:len(row)] = row, True, 1
    return text, segments, mask, spans


def _encoded(one: Question, numbers: dict[str, int], length: int
             ) -> tuple[list[int], int, tuple[int, int]]:
    """The row, where its second segment begins, and the places of the answer's ends."""
    question = [numbers.get(w, UNKNOWN) for w, _, _ in tokens(one.question)]
    row = [BEGIN, *question[:min(64, length // 4)], END]
    room = length - len(row) - 1
    found = tokens(one.context)
    end = one.start + len(one.answer)
    inside = [k for k, (_, begins, ends) in enumerate(found) if ends > one.start and begins < end]
    first, last = (inside[0], inside[-1]) if inside else (0, 0)    # an answer of spaces alone
    begin = max(0, min(first - room // 4, len(found) - room))
    kept = [numbers.get(w, UNKNOWN) for w, _, _ in found[begin:begin + room]]
    offset = len(row) - begin
    span = (first + offset, min(last + offset, len(row) + max(0, len(kept) - 1)))
    return [*row, *kept, END], len(row), span
