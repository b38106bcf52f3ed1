"""A figure that a decision rests on, and where it is from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from handtorch.record.row import Provenance

Word = Provenance | Literal["unknown"]
PLUS = " + "                            # between the sources of a sum
# What is made of several figures is no better than the worst of them.
_WORST_LAST: tuple[Word, ...] = ("measured", "estimated", "simulated", "unknown")


@dataclass(frozen=True)
class Known:
    """`value` None is unknown, and `how` says why."""

    value: float | None
    provenance: Word
    how: str

    def __post_init__(self) -> None:
        assert (self.value is None) == (self.provenance == "unknown"), self
        assert self.how, "where is it from?"

    def times(self, factor: float) -> Known:
        value = None if self.value is None else self.value * factor
        return Known(value, self.provenance, self.how)


def unknown(why: str) -> Known:
    return Known(None, "unknown", why)


def together(parts: Iterable[Known]) -> Known:
    """The sum, with the worst provenance; unknown if one part is. What is 0 for sure adds no word.
    """
    counted = [part for part in parts if part.value != 0]
    if not counted:
        return Known(0.0, "measured", "nothing of it is needed")
    worst = max(counted, key=lambda part: _WORST_LAST.index(part.provenance))
    if worst.value is None:
        return worst
    how = PLUS.join(dict.fromkeys(part.how for part in counted))
    return Known(sum(part.value or 0.0 for part in counted), worst.provenance, how)
