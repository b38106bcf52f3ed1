"""What a graph holds that can be tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from handtorch.graph.node import Graph
from handtorch.graph.opset import flops
from handtorch.kernels.variant import Problem
from handtorch.lower.problems import problem_of


def problems_in(graphs: Iterable[Graph]) -> tuple[Problem, ...]:
    """Every problem of graphs that all passes have seen, once: those with the most arithmetic in
    all their nodes first, so that a time limit cuts off what matters least."""
    found: Counter[Problem] = Counter()
    for node in (n for graph in graphs for n in graph.nodes):
        if (problem := problem_of(node)) is not None:
            found[problem] += flops(node)
    return tuple(p for p, _ in found.most_common())
