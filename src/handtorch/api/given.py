"""Results in the form in which the user's own code gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def as_given(outputs: Any, results: Sequence[T]) -> T | tuple[T, ...] | dict[str, T] | None:
    """Results in the form in which the user's code gave them."""
    if outputs.kind == "dict":
        return dict(zip(outputs.names, results, strict=True))
    if outputs.kind == "tuple":
        return tuple(results)
    return results[0] if results else None


def listed(one_or_more: Any) -> list[Any]:
    return list(one_or_more) if isinstance(one_or_more, list | tuple) else [one_or_more]


def as_list(given: Any) -> list[Any]:
    """What a step or a model gave, whatever its form: the reverse of `as_given`."""
    return list(given.values()) if isinstance(given, dict) else listed(given)
