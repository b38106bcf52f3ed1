"""Arithmetic on figures of devices and networks: what is known of them without having them at hand,
and where work is done best.

The room has the name of its function: `ht.place` is this module, once anything in it has been
imported, and so it can be called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from handtorch.errors import tells_the_callers_line


class _Room(ModuleType):
    @tells_the_callers_line
    def __call__(self, device_ms: Any, **options: Any) -> Any:
        from handtorch.place.ask import place
        return place(device_ms, **options)


sys.modules[__name__].__class__ = _Room
