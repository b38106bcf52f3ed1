"""Gradients of weights that share a factor become one node."""

from __future__ import annotations

from dataclasses import replace

from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.graph.opset import flops
from handtorch.passes.gradients import join_weight_gradients

T, B, H, IN = 3, 2, 5, 4
U, Y, DY = Value(0, (H, H)), Value(1, (T, B, H)), Value(2, (T, B, H))
X, DG, BEFORE = Value(3, (T * B, IN)), Value(4, (T, B, H)), Value(5, (T, B, H))
D, FLAT = Value(6, (T * B, H)), Value(7, (T * B, H))
DU, DW, DB, ROW = Value(8, (H, H)), Value(9, (H, IN)), Value(10, (H,)), Value(11, (1, H))
GRAD = Node("rnn_grad", (U, Y, DY), (DG, BEFORE), {"grads": ("dy",)}, phase="backward")
VIEWS = (Node("reshape", (DG,), (D,), {"shape": D.shape}),
         Node("reshape", (BEFORE,), (FLAT,), {"shape": FLAT.shape}))
OF_U = Node("matmul", (D, FLAT), (DU,), {"ta": True}, layer="net", phase="backward")
OF_W = Node("matmul", (D, X), (DW,), {"ta": True}, phase="backward")
OF_BIAS = Node("sum", (DG,), (DB,), {"axes": (0, 1)}, phase="backward")


def graph(*nodes: Node, outputs: tuple[Value, ...] = (DU, DW, DB)) -> Graph:
    made = Graph((GRAD, *VIEWS, *nodes), tuple(Port(f"x{v.id}", v) for v in (U, Y, DY, X)), (),
                 tuple(Port(f"y{v.id}", v) for v in outputs))
    check(made, "test")
    return made


def test_products_and_sum_of_one_factor_are_one_node() -> None:
    g = graph(OF_U, OF_W, OF_BIAS)
    out = join_weight_gradients(g)
    check(out, "weight gradients")
    *before, node = out.nodes
    assert tuple(before) == (GRAD, *VIEWS)
    assert (node.op, node.inputs, node.outputs) == ("weights_grad", (D, FLAT, X), (DU, DW, DB))
    assert (node.attrs, node.layer, node.phase) == ({"sums": True}, "net", "backward")
    assert flops(node) == sum(map(flops, (OF_U, OF_W, OF_BIAS)))


def test_a_sum_that_keeps_its_axis_is_given_its_shape() -> None:
    kept = Node("sum", (D,), (ROW,), {"axes": (0,), "keepdim": True})
    out = join_weight_gradients(graph(OF_U, kept, outputs=(DU, ROW)))
    check(out, "weight gradients")
    joined, view = out.nodes[-2:]
    assert joined.outputs[0] == DU and joined.outputs[1].shape == (H,)
    assert (view.op, view.inputs, view.outputs) == ("reshape", joined.outputs[1:], (ROW,))


def test_one_alone_stays() -> None:
    for node in (OF_U, OF_BIAS):
        g = graph(node, outputs=node.outputs)
        assert join_weight_gradients(g) == g


def test_what_is_read_before_the_last_of_them_stays() -> None:
    twice = Value(12, (H, IN))
    g = graph(OF_W, Node("neg", (DW,), (twice,)), OF_U, OF_BIAS, outputs=(twice, DU, DB))
    assert join_weight_gradients(g) == g


def test_other_sums_and_other_factors_stay() -> None:
    scaled = replace(OF_BIAS, attrs={"axes": (0, 1), "scale": 0.5})
    other = Node("matmul", (X, FLAT), (Value(13, (IN, H)),), {"ta": True})
    g = graph(OF_U, scaled, other, outputs=(DU, DB, other.outputs[0]))
    assert join_weight_gradients(g) == g
