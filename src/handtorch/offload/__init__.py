"""Acts on what is known of places: load-aware choice for each call, a batch split over several.

`ht.offload` calls it."""

from __future__ import annotations

from handtorch.callable_room import callable_room

callable_room(__name__, "handtorch.offload.offload.Offload")
