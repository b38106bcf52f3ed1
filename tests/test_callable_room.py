"""Rooms with the name of their function: called as such, and imported as rooms."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import handtorch as ht
import handtorch.offload.place
import handtorch.place.decide
import handtorch.profile.profile
from handtorch.callable_room import callable_room
from handtorch.errors import BadInput


@pytest.mark.parametrize("name", ["place", "offload", "profile"])
def test_a_room_stays_one_and_can_be_called(name: str) -> None:
    room = getattr(ht, name)
    assert isinstance(room, ModuleType) and callable(room) and room is sys.modules[room.__name__]


def test_the_function_is_imported_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "a_room", ModuleType("a_room"))
    callable_room("a_room", "a_home.made")
    home = ModuleType("a_home")
    home.__dict__["made"] = lambda *args, **options: (args, options)
    monkeypatch.setitem(sys.modules, "a_home", home)        # only now
    assert sys.modules["a_room"](1, two=2) == ((1,), {"two": 2})    # type: ignore[operator]


def test_an_error_tells_the_line_that_called_the_room() -> None:
    with pytest.raises(BadInput, match=r"from test_callable_room.py:\d+  ht\.place\(-1\.0\)"):
        ht.place(-1.0)
