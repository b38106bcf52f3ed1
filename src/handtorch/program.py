"""Program: all a runtime needs to run a step, and nothing of how it was made.

It holds no device handle and no weights: states are written into it when it is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node
from handtorch.graph.parts import update_part
from handtorch.graph.step import Step
from handtorch.graph.text import graph_text, step_text
from handtorch.kernels.render import render
from handtorch.plan.plan import Plan


@dataclass(frozen=True)
class Program:
    """Steps in order, their places, the kernels' source, and the graph they compute.

    The same graph for the same device gives the same `hash`. `built` has binaries of the device's
    driver by the SHA-256 of their source, where a file brought some that may be run; they change
    nothing but the time until the first step."""

    graph: Graph
    steps: tuple[Step, ...]
    plan: Plan
    spec: DeviceSpec
    once: tuple[Step, ...] = ()             # before the first step, and after a state was written
    built: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def all_steps(self) -> tuple[Step, ...]:
        return (*self.once, *self.steps)

    @cached_property
    def source(self) -> str:
        return render(self.all_steps)

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()

    @cached_property
    def update_node(self) -> int:
        """The first node of what runs once for many micro-batches, all of which stand last; the
        number of nodes if there is no such part."""
        first = len(self.graph.nodes) - len(once := update_part(self.graph))
        assert once == frozenset(range(first, len(self.graph.nodes))), "the update is not last"
        return first

    @cached_property
    def update_step(self) -> int:
        """The first step of that part."""
        return sum(s.node < self.update_node for s in self.steps)

    def node_of(self, step: Step) -> Node:
        return self.graph.nodes[step.node]

    def bytes_crossing(self) -> int:
        """Bytes that cross between host and device in each step: batch in, results out."""
        ports = (*self.graph.inputs, *self.graph.outputs)
        return sum(p.value.nbytes for p in ports)

    def text(self) -> str:
        """The whole program as text: graph, steps with places, source."""
        places = [f"  %{k} bank {p.bank} at {p.offset_bytes}"
                  for k, p in sorted(self.plan.places.items())]
        once = [f"  {i} {step_text(s)}" for i, s in enumerate(self.once)]
        return "\n".join(["graph", graph_text(self.graph), *(["once", *once] if once else []),
                          "steps",
                          *(f"  {i} {step_text(s)}" for i, s in enumerate(self.steps)),
                          f"places, banks {list(self.plan.bank_bytes)}", *places,
                          "source", self.source])
