"""A tree of rails: what is part of what, and what the machine took as a whole.

A rail whose parent was measured too is in its parent's sum already. So the machine's energy is
that of the rails at the top, and never of a parent and its child."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from handtorch.profile.energy.groups import mwh
from handtorch.profile.energy.model import Attribution

TOLERANCE = 0.03                # of the parent: two sensors do not agree better than that


@dataclass(frozen=True)
class Rail:
    """One rail of the tree; `rest_j` is what its children leave."""

    quantity: str
    depth: int                  # 0 at the top
    joules: float | None
    mwh: float | None
    children_j: float | None    # siblings added; None if it has none, or one of them is unknown
    rest_j: float | None
    warning: str = ""


@dataclass(frozen=True)
class Tree:
    """Rails in the order of the tree, parents first."""

    rails: tuple[Rail, ...]
    total_j: float | None       # of the rails at the top; None if one of them is unknown
    total_mwh: float | None
    reason: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(rail.warning for rail in self.rails if rail.warning)


def tree(found: Sequence[Attribution]) -> Tree:
    """All rails of one meter. A parent that was not measured makes its children tops."""
    joules = {one.signal.quantity: one.rail_j for one in found}
    parent = {one.signal.quantity: one.signal.parent for one in found}
    children: dict[str, list[str]] = {}
    for name, above in parent.items():
        children.setdefault(above if above in joules and above != name else "", []).append(name)
    tops, rails = children.get("", []), []

    def walk(name: str, depth: int) -> None:
        rails.append(_rail(name, depth, joules, children.get(name, [])))
        for child in children.get(name, []):
            walk(child, depth + 1)

    for name in tops:
        walk(name, 0)
    unknown = [name for name in tops if joules[name] is None]
    total = None if unknown or not tops else math.fsum(joules[name] or 0.0 for name in tops)
    why = f"unknown: {', '.join(unknown)}" if unknown else "" if tops else "no rails"
    return Tree(tuple(rails), total, mwh(total), why)


def _rail(name: str, depth: int, joules: dict[str, float | None], children: list[str]) -> Rail:
    own = joules[name]
    parts = [joules[child] for child in children]
    known = [part for part in parts if part is not None]
    below = math.fsum(known) if known and len(known) == len(parts) else None
    rest = own - below if own is not None and below is not None else None
    warning = ""
    if own is not None and known and math.fsum(known) > own * (1 + TOLERANCE):
        warning = (f"{name}: its parts ({', '.join(children)}) took {math.fsum(known):.4g} J, "
                   f"more than its own {own:.4g} J")
    return Rail(name, depth, own, mwh(own), below, rest, warning)
