"""A run that was told what it must not do without does not pass by skipping it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Missing = Callable[[Iterable[str]], list[str]]


def test_everything_this_run_requires_is_here(missing: Missing, needed: list[str]) -> None:
    assert missing(needed) == []


def test_an_unknown_requirement_is_missing(missing: Missing) -> None:
    assert missing(["nonesuch"]) == ["nonesuch"]
