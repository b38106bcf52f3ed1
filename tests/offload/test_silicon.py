"""Whether places share silicon is said for every pair."""

from __future__ import annotations

import pytest

from handtorch.offload.place import Place
from handtorch.offload.silicon import comparisons, shared


def at(name: str, *cores: int) -> Place:
    return Place(name, abs, cores=cores)


@pytest.mark.parametrize(("first", "second", "same", "why"), [
    (at("a", 0, 1), at("b", 1), True, "both run on core 1"),
    (at("a", 0), at("b", 1, 2), True, "different cores of one CPU: a on 0, b on 1, 2"),
    (at("a", 0), at("gpu"), False, "one of them has silicon of its own"),
    (at("a", 0), Place("b", abs), None, "b: nobody said on which cores this place runs"),
])
def test_what_two_places_share(first: Place, second: Place, same: bool | None, why: str) -> None:
    assert shared(first, second) == (same, why)


def test_every_pair_has_a_row() -> None:
    rows = list(comparisons([at("a", 0), at("b", 1), at("gpu")]))
    assert [(r.first, r.second, r.same_silicon) for r in rows] == [
        ("a", "b", True), ("a", "gpu", False), ("b", "gpu", False)]
