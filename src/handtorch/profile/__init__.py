"""Where a step's time and memory go: recorded steps on one clock, gaps by cause, memory by role.

`ht.profile` calls it."""

from __future__ import annotations

from handtorch.callable_room import callable_room

callable_room(__name__, "handtorch.profile.profile.profile")
