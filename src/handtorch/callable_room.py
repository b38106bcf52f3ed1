"""Rooms that have the name of their function: `ht.place` is a module, and `ht.place(...)` a call.

Once anything in such a room has been imported, its name in `handtorch` is the module, whatever
else that name was meant to be. So the module can be called."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from handtorch.errors import tells_the_callers_line


def callable_room(room: str, function: str) -> None:
    """To call the module `room` is to call `function`, a dotted name that is imported then."""
    home, _, name = function.rpartition(".")

    class Room(ModuleType):
        @tells_the_callers_line
        def __call__(self, *args: Any, **options: Any) -> Any:
            return getattr(import_module(home), name)(*args, **options)
    sys.modules[room].__class__ = Room
