"""All families registered: what the `ref` executor calls."""

from __future__ import annotations

from handtorch.graph.node import Node
from handtorch.runtime.device import Array
from handtorch.runtime.ref import (
    conv,
    index,
    losses,
    move,
    norm,
    optimizers,
    pointwise,
    pool,
    product,
    random,
    reduce,
    rnn,
)
from handtorch.runtime.ref.registry import REFERENCES

FAMILIES = (conv, index, losses, move, norm, optimizers, pointwise, pool, product, random, reduce,
            rnn)


def run_node(node: Node, *inputs: Array) -> tuple[Array, ...]:
    """The node's outputs, computed in the precision of its inputs."""
    out = REFERENCES[node.op](node, *inputs)
    return out if isinstance(out, tuple) else (out,)
