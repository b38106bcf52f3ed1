"""A weight's update and the product that is its gradient become one node."""

from __future__ import annotations

import dataclasses

import pytest

from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.passes.update import fuse_updates

X, DY, RATE = Value(0, (4, 6)), Value(1, (4, 5)), Value(2, (1,))
W, M, G, NEW, MOVED = (Value(i, (5, 6)) for i in range(3, 8))
SETTINGS = {"momentum": 0.9, "decay": 0.0, "nesterov": False, "maximize": False}
PRODUCT = Node("matmul", (DY, X), (G,), {"ta": True}, layer="fc", phase="backward")
UPDATE = Node("sgd", (W, G, RATE, M), (NEW, MOVED), SETTINGS, phase="optimizer")


def graph(*nodes: Node, outputs: tuple[Value, ...] = ()) -> Graph:
    states = (State("w", "parameter", W, NEW), State("m", "optimizer", M, MOVED))
    made = Graph(nodes, (Port("x", X), Port("dy", DY), Port("lr", RATE)), states,
                 tuple(Port(f"y{v.id}", v) for v in outputs))
    check(made, "test")
    return made


def test_the_gradient_is_never_stored() -> None:
    out = fuse_updates(graph(PRODUCT, UPDATE))
    check(out, "updates")
    (node,) = out.nodes
    assert (node.op, node.inputs, node.outputs) == (
        "matmul_sgd", (W, DY, X, RATE, M), (NEW, MOVED))
    assert node.attrs == {"ta": True, **SETTINGS}
    assert (node.layer, node.phase) == ("fc", "optimizer")


def test_a_gradient_that_is_also_a_result_stays() -> None:
    g = graph(PRODUCT, UPDATE, outputs=(G,))
    assert fuse_updates(g).nodes == g.nodes


def test_a_product_with_more_to_do_stays() -> None:
    mask = Value(8, (5, 6))
    product = dataclasses.replace(PRODUCT, inputs=(DY, X, mask),
                                  attrs={"ta": True, "epilogue": ("relu_grad",)})
    g = Graph((product, UPDATE), (Port("x", X), Port("dy", DY), Port("lr", RATE),
                                  Port("mask", mask)),
              (State("w", "parameter", W, NEW), State("m", "optimizer", M, MOVED)), ())
    assert fuse_updates(g).nodes == g.nodes


@pytest.mark.parametrize("through_a_view", [False, True])
def test_a_product_that_reads_the_weight_it_would_overwrite_stays(through_a_view: bool) -> None:
    square = Value(0, (6, 6))
    w, m, g, new, moved = (Value(i, (6, 6)) for i in range(3, 8))
    view = Value(8, (6, 6))
    read = view if through_a_view else w
    nodes = (Node("reshape", (w,), (view,), {"shape": (6, 6)}),
             Node("matmul", (square, read), (g,)), Node("sgd", (w, g, RATE, m), (new, moved),
                                                        SETTINGS))
    made = Graph(nodes, (Port("x", square), Port("lr", RATE)),
                 (State("w", "parameter", w, new), State("m", "optimizer", m, moved)), ())
    assert "matmul" in [n.op for n in fuse_updates(made).nodes]
