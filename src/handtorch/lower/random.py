"""Random numbers: one launch each, and one that moves the state on."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.graph.step import Alias, Lowered
from handtorch.kernels.random import KINDS, RANDOM, RNG_NEXT, group_for
from handtorch.lower.registry import Target, lowers


@lowers("rand", "randn", "randint")
def random(node: Node, target: Target) -> Lowered:
    (state,), (y,) = node.inputs, node.outputs
    low, high = int(node.number("low", 0)), int(node.number("high", 0))
    sizes = {"COUNT": y.size, "STREAM": int(node.number("stream")), "LOW": low,
             "RANGE": high - low}
    defines = {"KIND": KINDS[node.op], "GROUP": group_for(y.size)}
    return Lowered((RANDOM.step((state, y), sizes, defines, node=target.node),))


@lowers("rng_next")
def rng_next(node: Node, target: Target) -> Lowered:
    step = RNG_NEXT.step(node.outputs, node=target.node)
    return Lowered((step,), (Alias(node.outputs[0], node.inputs[0]),))
