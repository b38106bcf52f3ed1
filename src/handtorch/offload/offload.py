"""Offload: places behind one call; each call runs where it is expected to take least."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from handtorch.errors import BadInput
from handtorch.offload.place import Decision, Place
from handtorch.offload.policy import RULES, Policy, Rules
from handtorch.offload.silicon import comparisons
from handtorch.record.rows import Comparison, Result

KEPT = 1000                             # decisions that can still be explained


@dataclass(frozen=True, slots=True)
class Done:
    """A decision and what came of it; `deciding_s` is what choosing and learning took."""

    decision: Decision
    latency_s: float
    deciding_s: float


class Offload:
    """`y = offload(x)` runs `x` at one of the places and gives its answer.

    The first calls go to each place in turn. From then on every call's latency, and the load that
    was read before it, teach the estimate of its place; the call goes where the estimate under the
    load of this moment is least, with hysteresis. An error of a place is the caller's: no other
    place is tried in silence.

    >>> offload = ht.offload([ht.Place("cpu", on_cpu), ht.Place("device", infer)])
    >>> for _ in range(10):
    ...     scores = offload(x)
    >>> offload.last.place in ("cpu", "device")
    True
    """

    def __init__(self, places: Sequence[Place], *, rules: Rules = RULES) -> None:
        names = [place.name for place in places]
        if not places or len(set(names)) < len(names):
            raise BadInput(f"offload over {len(places)} places", why="it takes one or more, each "
                           f"with a name of its own; the names are {', '.join(names) or 'none'}")
        self.places = tuple(places)
        self.policy = Policy(names, rules)
        self._done: deque[Done] = deque(maxlen=KEPT)

    def __call__(self, *batch: Any) -> Any:
        """What the chosen place gives for this batch; `last` says which it was, and why.

        >>> offload(x).shape
        (8, 2)
        """
        clock = time.perf_counter
        start = clock()
        loads = [place.load() for place in self.places]
        decision = self.policy.choose(loads, start)
        call = self.places[decision.chosen].call
        chosen = clock()
        result = call(*batch)
        end = clock()
        latency = end - chosen
        self.policy.learn(decision, latency, end)
        self._done.append(Done(decision, latency, (chosen - start) + (clock() - end)))
        return result

    @property
    def last(self) -> Decision:
        """The decision of the last call.

        >>> scores = offload(x)
        >>> offload.last.names
        ('cpu', 'device')
        """
        return self._last().decision

    @property
    def done(self) -> tuple[Done, ...]:
        """The last thousand decisions with their latencies, oldest first.

        >>> scores = offload(x)
        >>> offload.done[-1].latency_s > 0
        True
        """
        return tuple(self._done)

    def explain(self, calls: int = 1) -> str:
        """The last calls, a line for each: where, why, how long it took.

        >>> scores = offload(x)
        >>> print(offload.explain())
        call ...: ... (...): cpu ..., device ...; took ... ms
        """
        self._last()
        return "\n".join(f"{d.decision.why}; took {1e3 * d.latency_s:.3g} ms"
                         for d in list(self._done)[-calls:])

    def rows(self, study: str = "offload") -> Iterator[Result | Comparison]:
        """For a run file: whether places share silicon, and each decision that is still kept.

        The places must be in the file already.

        >>> scores = offload(x)
        >>> len(list(offload.rows())) > 1
        True
        """
        yield from comparisons(self.places)
        for done in self._done:
            yield Result(study=study, name=f"decision: {done.decision.kind}",
                         subject=done.decision.why, place=done.decision.place, x_name="call",
                         x_value=done.decision.number, value=1e3 * done.latency_s, unit="ms",
                         better="lower", repeats=1, provenance="measured")

    def _last(self) -> Done:
        if not self._done:
            raise BadInput("nothing was decided yet", fix="call it first")
        return self._done[-1]
