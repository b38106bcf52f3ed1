"""The closed op set: for each op its result's shape and type, and its floating-point work.

An op that is not here is refused by name at capture. Adding one takes a paragraph in its family,
a lowering, a reference and a kernel; a test walks this table and asks for all of them."""

from __future__ import annotations

from handtorch.graph.node import Node, Value
from handtorch.graph.ops import (
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
from handtorch.graph.ops.op import Op, Types

FAMILIES = (conv, index, losses, move, norm, optimizers, pointwise, pool, product, random, reduce,
            rnn)
OPS: dict[str, Op] = {op.name: op for family in FAMILIES for op in family.OPS}


def output_types(node: Node) -> Types:
    return OPS[node.op].result(node)


def flops(node: Node) -> int:
    return OPS[node.op].flops(node)


def infer_outputs(node: Node, first_id: int) -> tuple[Value, ...]:
    """Fresh values of the types the op set says."""
    return tuple(Value(first_id + i, shape, kind)
                 for i, (shape, kind) in enumerate(output_types(node)))
