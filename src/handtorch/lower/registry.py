"""Lowerings by op name, and the walk over a graph."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import count

from handtorch.errors import CannotLower
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Graph, Node, Shape, Value
from handtorch.graph.opset import flops
from handtorch.graph.step import Alias, Lowered, Step
from handtorch.lower.once import Constants


@dataclass(frozen=True)
class Target:
    """What a lowering may ask: the device's facts, the node's number, scratch space, and whether a
    value (by id) is the same in every run, so that what follows from it alone costs nothing."""

    spec: DeviceSpec
    node: int
    scratch: Callable[[Shape], Value]
    flops: int
    constants: Container[int] = ()


Lowering = Callable[[Node, Target], Lowered]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*ops: str) -> Callable[[Lowering], Lowering]:
    def register(fn: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(ops, fn))
        return fn
    return register


def cannot_lower(node: Node, why: str, fix: str = "") -> CannotLower:
    names = ", ".join(map(str, node.inputs))
    return CannotLower(f"{node.op} {names}", why=why, where=str(node.where or ""), fix=fix)


def lower_graph(graph: Graph, spec: DeviceSpec) -> Lowered:
    """All launches of a graph, in order. A size of 0 needs no launch and gets none."""
    fresh, constants = count(graph.next_id()), Constants(graph)
    steps: list[Step] = []
    once: list[Step] = []
    aliases: list[Alias] = []
    for index, node in enumerate(graph.nodes):
        target = Target(spec, index, lambda shape: Value(next(fresh), tuple(shape)), flops(node),
                        constants)
        lowered = LOWERINGS[node.op](node, target)
        first, always = constants.take(lowered.steps, lowered.aliases)
        once += first
        steps += always
        aliases += lowered.aliases
    return Lowered(tuple(steps), tuple(aliases), tuple(once))
