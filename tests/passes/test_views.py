"""Views that cost nothing are gone afterwards, and those that others need are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from handtorch.graph.check import check
from handtorch.graph.node import Attr, Graph, Node, Port, Value
from handtorch.graph.opset import infer_outputs
from handtorch.passes.views import fold_views


class Chain:
    """A graph in the making; calls give the output of the node they add."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.inputs = [Value(i, s) for i, s in enumerate(shapes)]
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: Value, **attrs: Attr) -> Value:
        outs = infer_outputs(Node(op, inputs, (), attrs), len(self.inputs) + len(self.nodes))
        self.nodes.append(Node(op, inputs, outs, attrs))
        return outs[0]

    def folded(self, *outputs: Value) -> list[Node]:
        graph = Graph(tuple(self.nodes), tuple(Port(f"x{v.id}", v) for v in self.inputs), (),
                      tuple(Port(f"y{v.id}", v) for v in outputs))
        check(graph, "test")
        out = fold_views(graph)
        check(out, "views")
        return list(out.nodes)


def ops(nodes: Sequence[Node]) -> list[str]:
    return [n.op for n in nodes]


def test_transposes_join() -> None:
    c = Chain((2, 3, 4))
    t = c("transpose", c("transpose", c.inputs[0], order=(1, 0, 2)), order=(2, 0, 1))
    (node,) = c.folded(t)
    assert node.numbers("order") == (2, 1, 0) and node.inputs == (c.inputs[0],)


def test_moving_axes_of_one_element_moves_nothing() -> None:
    c = Chain((2, 1, 4))
    assert ops(c.folded(c("transpose", c.inputs[0], order=(1, 0, 2)))) == ["reshape"]


def test_reshapes_and_expansions_join() -> None:
    c = Chain((2, 1, 4))
    r = c("reshape", c("reshape", c.inputs[0], shape=(8,)), shape=(4, 2))
    e = c("expand", c("expand", c.inputs[0], shape=(2, 3, 4)), shape=(5, 2, 3, 4))
    nodes = c.folded(r, e)
    assert ops(nodes) == ["reshape", "expand"]
    assert all(n.inputs == (c.inputs[0],) for n in nodes)


def test_a_point_wise_op_stretches_by_itself() -> None:
    c = Chain((2, 1), (2, 3))
    nodes = c.folded(c("add", c("expand", c.inputs[0], shape=(2, 3)), c.inputs[1]))
    assert ops(nodes) == ["add"] and nodes[0].inputs == tuple(c.inputs)


def test_not_where_the_shape_would_be_lost() -> None:
    c = Chain((2, 1))
    e = c("expand", c.inputs[0], shape=(2, 3))
    assert ops(c.folded(c("relu", e))) == ["expand", "relu"]
    c = Chain((2, 1))
    e = c("expand", c.inputs[0], shape=(2, 3))
    (_, node) = c.folded(c("add", e, e))
    assert node.outputs[0].shape == (2, 3)


@pytest.mark.parametrize("op", ["matmul", "bmm"])
def test_products_read_and_give_transposes(op: str) -> None:
    lead = (3,) if op == "bmm" else ()
    order = (0, 2, 1) if op == "bmm" else (1, 0)
    c = Chain((*lead, 5, 4), (*lead, 5, 6))
    y = c(op, c("transpose", c.inputs[0], order=order), c.inputs[1])
    (node,) = c.folded(c("transpose", y, order=order))
    assert node.op == op and node.inputs == (c.inputs[1], c.inputs[0])
    assert node.flag("ta") and not node.flag("tb")


def test_a_product_that_others_read_stays_as_it_is() -> None:
    c = Chain((3, 4), (4, 5))
    y = c("matmul", *c.inputs)
    assert ops(c.folded(c("transpose", y, order=(1, 0)), y)) == ["matmul", "transpose"]


def test_heads_joined_after_the_swap_are_read_through_it() -> None:
    """k.transpose(-2, -1) of [2, 3, 5, 4], as attention has it, in and out."""
    c = Chain((6, 7, 4), (2, 3, 5, 4))
    k = c("reshape", c("transpose", c.inputs[1], order=(0, 1, 3, 2)), shape=(6, 4, 5))
    y = c("reshape", c("bmm", c.inputs[0], k), shape=(2, 3, 7, 5))
    nodes = c.folded(c("transpose", y, order=(0, 1, 3, 2)))
    assert ops(nodes) == ["reshape", "bmm", "reshape"]
    assert nodes[1].inputs[1] == c.inputs[0] and nodes[1].flag("tb") and not nodes[1].flag("ta")


def test_one_matrix_for_the_whole_batch_is_not_stretched() -> None:
    c = Chain((6, 7, 4), (4, 5))
    nodes = c.folded(c("bmm", c.inputs[0], c("expand", c.inputs[1], shape=(6, 4, 5))))
    assert ops(nodes) == ["reshape", "bmm"] and nodes[1].inputs[1].shape == (1, 4, 5)
