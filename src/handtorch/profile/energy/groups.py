"""Sums over groups of operations: a layer, a phase, or any other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.model import Attribution
from handtorch.profile.energy.student import t975

MWH_PER_J = 1 / 3.6
INTERVALS = "errors of operations are added with their correlation"


@dataclass(frozen=True)
class GroupEnergy:
    """Operations of one group together. The total is of all of them, also of those that are not
    known alone: what cannot be told from its neighbour is known in a sum with it."""

    name: str
    ops: int
    total_j: float | None
    low_j: float | None
    high_j: float | None
    reason: str = ""


def rolled_up(found: Attribution, group: Callable[[str], str], widest: float = 0.5
              ) -> tuple[GroupEnergy, ...]:
    """Groups in the order of their first operation; 95 % intervals know how estimates err
    together (see INTERVALS), so that of a sum is seldom the sum of intervals.

    Operations that never ran have no part in it. Wider than `widest` of the total is refused."""
    members: dict[str, list[int]] = {}
    for at, op in enumerate(found.ops):
        members.setdefault(group(op.name), []).append(at)
    return tuple(_sum(found, name, here, widest) for name, here in members.items())


def _sum(found: Attribution, name: str, here: list[int], widest: float) -> GroupEnergy:
    if found.means_j is None or found.errors_j2 is None:
        return GroupEnergy(name, len(here), None, None, None, found.reason)
    ran = [at for at in here if found.ops[at].low_j is not None]
    if not ran:
        return GroupEnergy(name, len(here), None, None, None, found.ops[here[0]].reason)
    total = math.fsum(found.means_j[ran])
    wide = t975(found.freedom) * math.sqrt(max(float(found.errors_j2[np.ix_(ran, ran)].sum()), 0.0))
    if not wide <= widest * abs(total):
        percent = f"{100 * wide / abs(total):.0f} %" if total else "any"
        return GroupEnergy(name, len(here), None, total - wide, total + wide,
                           f"not enough data: +-{percent}")
    return GroupEnergy(name, len(here), total, total - wide, total + wide)


def mwh(joules: float | None) -> float | None:
    """Milliwatt-hours."""
    return None if joules is None else joules * MWH_PER_J
