"""What a program without training needs to compute only once: all that follows from its weights.

Packed weights, sums of biases and the like stay on the device beside the weights themselves, and
are made again only when somebody writes a weight. A program that trains keeps nothing: its weights
change in every step."""

from __future__ import annotations

from collections.abc import Sequence

from handtorch.graph.node import Graph
from handtorch.graph.step import Alias, Step

TRAINS = ("optimizer", "hyper")         # roles of states that only a training step has


class Constants:
    """Which values are the same in every run, known as far as lowering has come."""

    def __init__(self, graph: Graph) -> None:
        self._ids: set[int] = set()
        # A step that tries an update and takes it back changes no weight for good; it trains.
        trains = any(s.role in TRAINS or (s.changes and s.role == "parameter")
                     for s in graph.states)
        if not trains:
            self._ids = {s.before.id for s in graph.states if not s.changes}
        # A result lies in a slot of the staging ring, another one in each run.
        self._results = {v.id for v in graph.results()}

    def __contains__(self, value_id: object) -> bool:
        return value_id in self._ids

    def take(self, steps: Sequence[Step], aliases: Sequence[Alias]
             ) -> tuple[list[Step], list[Step]]:
        """The steps of one node that have to run once, and those of every run."""
        once: list[Step] = []
        always: list[Step] = []
        shared = {v.id for a in aliases for v in (a.new, a.old)}
        for step in steps:
            made = {o.value.id for o in step.operands if o.writes}
            read = {o.value.id for o in step.operands if o.reads}
            if read and read <= self._ids and not made & (self._results | shared | self._ids):
                once.append(step)
                self._ids |= made
            else:
                always.append(step)
        self._ids |= {a.new.id for a in aliases
                      if a.old.id in self._ids and a.new.id not in self._results
                      and all(a.new.id not in {o.value.id for o in s.operands if o.writes}
                              for s in steps)}
        return once, always
