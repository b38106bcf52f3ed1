"""Acts on what is known of places: load-aware choice for each call, a batch split over several.

The room has the name of its function: `ht.offload` is this module, once anything in it has been
imported, and so it can be called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from handtorch.errors import tells_the_callers_line


class _Room(ModuleType):
    @tells_the_callers_line
    def __call__(self, places: Any, **options: Any) -> Any:
        from handtorch.offload.offload import Offload
        return Offload(places, **options)


sys.modules[__name__].__class__ = _Room
