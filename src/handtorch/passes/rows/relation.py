"""What a value of a step on few rows is to the same value of a step on all of them.

The step is captured twice, for all rows and for few; node by node, each value of the small step is
set against that of the large one. Where a number of the program is a part of the batch's size, as
the 1/n of a mean, both differ by a power of k, which is how many times as many rows there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from handtorch.graph.node import Shape

# The exponent of k; None for what is zero or infinite, and so its own multiple.
Power = int | None


@dataclass(frozen=True)
class Same:
    """small = k^power large, whichever rows the small step has."""

    power: Power = 0


@dataclass(frozen=True)
class Rows:
    """small = k^power times the part of large that belongs to its rows.

    `axis` holds them: its index is (outer, row, inner). Of a value that is `free`, all elements are
    alike or random: it may be taken apart in any way."""

    axis: int
    outer: int = 1
    inner: int = 1
    power: Power = 0
    free: bool = False


@dataclass(frozen=True)
class Total:
    """The sum of small over all parts of the batch = k^power large."""

    power: int


@dataclass(frozen=True)
class Whole:
    """Known when all parts have been added up, and not before: computed once, as large is.

    `updated` if an update of weights is behind it."""

    updated: bool = False


Relation = Same | Rows | Total | Whole


class Mixed(Exception):
    """It cannot be shown that the rows do not meet here."""

    def __init__(self, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.why, self.fix = why, fix


def agreed(*powers: Power) -> Power:
    """The power that all have, of terms of a sum."""
    found = {p for p in powers if p is not None}
    if len(found) > 1:
        raise Mixed("terms that grow differently with the number of rows are added or compared")
    return found.pop() if found else None


def plus(*powers: Power) -> Power:
    """The power of a product."""
    total = 0
    for power in powers:
        if power is None:
            return None
        total += power
    return total


def differing(large: Shape, small: Shape, rows: int, few: int) -> Rows | None:
    """The one axis in which the shapes differ, by the number of rows; None if they do not."""
    if len(large) != len(small):
        raise Mixed("its shape depends on the number of rows in another way than by one axis")
    axes = [i for i, (a, b) in enumerate(zip(large, small, strict=True)) if a != b]
    if not axes:
        return None
    axis = axes[0]
    times = large[axis] // rows
    if len(axes) > 1 or large[axis] != times * rows or small[axis] != times * few:
        raise Mixed("more than one of its axes, or a part of one, belongs to the rows")
    return Rows(axis, 1, times)


def one_axis(parts: list[Rows]) -> Rows:
    """The axis and split that all these have; those that are free take that of the others."""
    bound = [r for r in parts if not r.free] or parts[:1]
    first = bound[0]
    for other in parts:
        alike = (other.outer, other.inner) == (first.outer, first.inner)
        if other.axis != first.axis or not (alike or other.free):
            raise Mixed("rows of the batch meet other rows of it")
    return replace(first, power=0, free=all(r.free for r in parts))
