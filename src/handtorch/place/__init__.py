"""Arithmetic on figures of devices and networks: what is known of them without having them at hand,
and where work is done best. `ht.place` calls it."""

from __future__ import annotations

from handtorch.callable_room import callable_room

callable_room(__name__, "handtorch.place.ask.place")
