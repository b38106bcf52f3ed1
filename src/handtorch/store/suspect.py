"""Small questions to JSON that came from a file: each gives what it asked for, or refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
SHOWN = 60


class Suspect(Exception):
    """What is wrong with a file's contents; who opened the file makes it an error that names it."""


def shown(told: Any) -> str:
    """Enough of it to find it by, and no more."""
    text = repr(told)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def parsed(text: str) -> Any:
    """JSON in which no name stands twice and every number is one of the standard's."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise Suspect(f"its description is not JSON that can be used: {e}") from e


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def whole(told: Any, what: str, least: int, most: int) -> int:
    if type(told) is not int or not least <= told <= most:
        raise Suspect(f"{what} is {shown(told)}, and must be a whole number, {least} to {most}")
    return told


def word(told: Any, what: str, longest: int) -> str:
    if type(told) is not str or len(told) > longest:
        raise Suspect(f"{what} is {shown(told)}, and must be a text of at most {longest} letters")
    return told


def one_of(told: Any, what: str, known: Collection[str]) -> str:
    if type(told) is not str or told not in known:
        raise Suspect(f"{what} is {shown(told)}, which this version does not know")
    return told


def row(told: Any, what: str, most: int, least: int = 0) -> list[Any]:
    if type(told) is not list or not least <= len(told) <= most:
        raise Suspect(f"{what} is {shown(told)}, and must be a list of {least} to {most}")
    return told


def rows(told: Any, what: str, most: int, read: Callable[[Any], T]) -> tuple[T, ...]:
    return tuple(read(one) for one in row(told, what, most))


def record(told: Any, what: str, needed: Collection[str], allowed: Collection[str] = ()
           ) -> dict[str, Any]:
    """An object with all of `needed`, and of others only those `allowed`."""
    if type(told) is not dict:
        raise Suspect(f"{what} is {shown(told)}, and must be an object")
    for name in needed:
        if name not in told:
            raise Suspect(f"{what} has no {name!r}")
    for name in told:
        if name not in needed and name not in allowed:
            raise Suspect(f"{what} has {shown(name)}, which this version does not know")
    return told
