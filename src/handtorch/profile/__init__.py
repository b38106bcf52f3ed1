"""Where a step's time and memory go: recorded steps on one clock, gaps by cause, memory by role.

The room has the name of its function: `ht.profile` is this module, once anything in it has been
imported, and so it can be called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, step: Any, **options: Any) -> Any:
        from handtorch.profile.profile import profile
        return profile(step, **options)


sys.modules[__name__].__class__ = _Room
