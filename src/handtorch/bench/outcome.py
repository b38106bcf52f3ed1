"""What became of a case on one side, and whether its numbers are believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Literal

from handtorch.baseline.parity import (
    LATER,
    OUTPUTS,
    STEP1,
    losses_agree,
    losses_off,
    outputs_off,
)
from handtorch.bench.case import Case
from handtorch.store.tensors import Array

# "differs": it ran, but its results are not torch's; then nothing of it is timed.
State = Literal["believed", "differs", "skipped", "failed"]
Calls = Sequence[tuple[Array, ...]]


@dataclass(frozen=True)
class Memory:
    """Resident bytes of a side's process: with its engine loaded and no model, the most it ever
    held, and the most while it ran, after all that is made once."""

    before_bytes: int
    peak_bytes: int
    steps_bytes: int


@dataclass(frozen=True)
class Outcome:
    """`seconds` are means of a run, one for each block; `firsts_s` the first runs one by one."""

    case: Case
    side: str
    state: State
    reason: str = ""
    version: str = ""
    firsts_s: tuple[float, ...] = ()
    off: tuple[float, ...] = ()             # how far its results are from those expected
    seconds: tuple[float, ...] = ()
    runs: int = 0
    memory: Memory | None = None

    @property
    def median_s(self) -> float | None:
        return median(self.seconds) if self.seconds else None


def checked(case: Case, found: Calls, expected: Calls) -> tuple[tuple[float, ...], str]:
    """How far off each of the first runs is, and why that is not believed; empty if it is."""
    if [len(call) for call in found] != [len(call) for call in expected]:
        return (), f"it gives {[len(c) for c in found]} results, not {[len(c) for c in expected]}"
    if case.task == "train":
        off = losses_off(_floats(found), _floats(expected))
        told = f"first loss {found[0][0]:.6g}, torch's {expected[0][0]:.6g}"
        allowed = f"{STEP1:g}, then {LATER:g}"
        fine = losses_agree(off)
    else:
        off = tuple(outputs_off(a, b) for a, b in zip(found, expected, strict=True))
        told, allowed, fine = "results differ", f"{OUTPUTS:g}", max(off) <= OUTPUTS
    if fine:
        return off, ""
    return off, f"{told}; off by {', '.join(f'{d:.1g}' for d in off)}, allowed {allowed}"


def checked_again(case: Case, found: Calls, expected: Calls) -> str:
    """Why the results after all timed runs are not believed. A model's are still the first ones;
    of training nothing is known but that its losses are numbers."""
    if case.task != "train":
        return checked(case, found, expected[:1])[1]
    odd = [x for call in _floats(found) for x in call if not isfinite(x)]
    return f"its loss has become {odd[0]}" if odd else ""


def _floats(calls: Calls) -> list[list[float]]:
    return [[float(x) for x in call] for call in calls]


def ratios(ours: Outcome, theirs: Outcome) -> tuple[float, ...]:
    """How many times as fast ours is, round by round: both took their turn in each."""
    return tuple(b / a for a, b in zip(ours.seconds, theirs.seconds, strict=False))
