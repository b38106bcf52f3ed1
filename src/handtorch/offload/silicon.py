"""Do two places share cores? Every comparison of places has to say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from handtorch.offload.place import Place
from handtorch.record.rows import Comparison


def shared(first: Place, second: Place) -> tuple[bool | None, str]:
    """Whether both run on the same silicon, and what is known about it.

    Two places on different cores of one CPU do not take each other's time, yet they share caches,
    memory and clock: that is the same silicon all the same."""
    if first.cores is None or second.cores is None:
        place = first if first.cores is None else second
        return None, f"{place.name}: {place.cores_reason}"
    both = sorted({*first.cores} & {*second.cores})
    if not first.cores or not second.cores:
        return False, "one of them has silicon of its own"
    if both:
        return True, f"both run on core {', '.join(map(str, both))}"
    return True, (f"different cores of one CPU: {first.name} on "
                  f"{', '.join(map(str, first.cores))}, {second.name} on "
                  f"{', '.join(map(str, second.cores))}")


def comparisons(places: Sequence[Place]) -> Iterator[Comparison]:
    """A row for each pair."""
    for first, second in combinations(places, 2):
        same, why = shared(first, second)
        yield Comparison(first=first.name, second=second.name, same_silicon=same,
                         same_silicon_reason=why)
