"""Split: one batch over several places at the same time, in the ratio of their speeds.

    both = ht.split([Place("a", infer_a.over), Place("b", infer_b.over)], unit=8)
    y = both(x)                     # as from one place, in order

Both papers on training ask for it: a CPU and a GPU that wait for each other waste one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.offload.place import Place
from handtorch.offload.silicon import comparisons
from handtorch.record.rows import Comparison, Result

Array = NDArray[Any]
NEW = 0.3                           # the weight of what was measured last
FARTHEST = 2.0                      # a measurement further off than this counts as so far off
LOOK_EVERY = 50                     # calls after which a place that gets nothing is tried again


@dataclass(frozen=True)
class Share:
    """One place's part of a batch: its rows and how long they took."""

    place: str
    rows: int
    seconds: float


class Split:
    """`y = split(x)`: rows of `x` go to the places in units, and come back in order.

    Places take any number of rows, as `Inference.over` does; rows must not depend on one another.
    `unit` is how many rows a place takes at a time: a batch of its program. How long a unit takes
    at each place is measured at every call and followed; each unit goes where it ends first, so a
    place that would only delay the others gets none.

    >>> whole = np.ones((64, 4), "f4")
    >>> with ht.split(halves, unit=8) as both:
    ...     both(whole).shape
    (64, 2)
    """

    def __init__(self, places: Sequence[Place], *, unit: int) -> None:
        names = [place.name for place in places]
        if len(places) < 2 or len(set(names)) < len(names) or unit < 1:
            raise BadInput(f"a split over {', '.join(names) or 'nothing'} in units of {unit}",
                           why="it takes two places or more, each with a name of its own, and "
                               "units of one row or more")
        self.places, self.unit = tuple(places), unit
        self._unit_s: list[float | None] = [None] * len(places)
        self._idle = [0] * len(places)
        self._threads = [ThreadPoolExecutor(1, f"handtorch-{name}") for name in names[1:]]
        self.last: tuple[Share, ...] = ()

    @tells_the_callers_line
    def __call__(self, x: Any) -> Any:
        """What one place would give for all rows: an array, or a tuple of them.

        >>> with ht.split(halves, unit=8) as both:
        ...     both(x).shape
        (8, 2)
        """
        whole = np.asarray(x)
        if not whole.ndim or not len(whole):
            raise BadInput(f"an array of shape {list(whole.shape)}", why="there are no rows in it")
        units = -(-len(whole) // self.unit)
        parts, at = [], 0
        for count in self.counts(units):
            parts.append(whole[at:at + count * self.unit])
            at += count * self.unit
        # The first place runs in this thread: there is nothing else for it to do.
        waiting = [thread.submit(_timed, place, part) if len(part) else None
                   for thread, place, part in
                   zip(self._threads, self.places[1:], parts[1:], strict=True)]
        first = _timed(self.places[0], parts[0]) if len(parts[0]) else None
        done = [first, *(None if w is None else w.result() for w in waiting)]
        self.last = tuple(Share(place.name, len(part), d[1] if d else 0.0)
                          for place, part, d in zip(self.places, parts, done, strict=True))
        self._learn()
        return _joined([d[0] for d in done if d])

    def counts(self, units: int) -> list[int]:
        """How many units each place gets: equal parts at first, then each where it ends first.

        >>> with ht.split(halves, unit=8) as both:
        ...     both.counts(5)
        [3, 2]
        """
        known = self._unit_s
        if any(s is None for s in known):
            fair, over = divmod(units, len(known))
            return [fair + (k < over) for k in range(len(known))]
        each = [s for s in known if s is not None]
        counts = [1 if self._idle[k] >= LOOK_EVERY and units > len(each) else 0
                  for k in range(len(each))]
        for _ in range(units - sum(counts)):
            k = min(range(len(each)), key=lambda k: (counts[k] + 1) * each[k])
            counts[k] += 1
        return counts

    def _learn(self) -> None:
        for k, share in enumerate(self.last):
            self._idle[k] = 0 if share.rows else self._idle[k] + 1
            if not share.rows:
                continue
            unit_s = share.seconds / -(-share.rows // self.unit)
            old = self._unit_s[k]
            if old is not None:
                unit_s = min(max(unit_s, old / FARTHEST), old * FARTHEST)
                unit_s = old + NEW * (unit_s - old)
            self._unit_s[k] = unit_s

    @property
    def ratio(self) -> tuple[float, ...]:
        """The speeds of the places as parts of their sum.

        >>> with ht.split(halves, unit=4) as both:
        ...     scores = both(x)
        >>> round(sum(both.ratio), 6)
        1.0
        """
        if any(s is None for s in self._unit_s):
            raise BadInput("no ratio is known yet", fix="call it first")
        speeds = [1 / s for s in self._unit_s if s]
        return tuple(s / sum(speeds) for s in speeds)

    def rows(self, study: str = "offload") -> Iterator[Result | Comparison]:
        """For a run file, which has the places already: shared silicon, and the ratio now.

        >>> with ht.split(halves, unit=4) as both:
        ...     scores = both(x)
        >>> len(list(both.rows())) >= 2
        True
        """
        yield from comparisons(self.places)
        for place, part in zip(self.places, self.ratio, strict=True):
            yield Result(study=study, name="part of a batch", subject=place.name, place=place.name,
                         value=100 * part, unit="%", better="neither", repeats=1,
                         provenance="measured")

    def close(self) -> None:
        """The threads have ended; the places stay as they are.

        >>> ht.split(halves, unit=8).close()
        """
        for thread in self._threads:
            thread.shutdown()

    def __enter__(self) -> Split:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


@tells_the_callers_line
def split(places: Sequence[Place], *, unit: int) -> Split:
    """Places that work on one batch together; see `Split`.

    >>> both = ht.split(halves, unit=4)
    >>> both(x).shape
    (8, 2)
    >>> both.close()
    """
    return Split(places, unit=unit)


def _timed(place: Place, part: Array) -> tuple[Any, float]:
    start = time.perf_counter()
    result = place.call(part)
    return result, time.perf_counter() - start


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return np.concatenate(parts)
