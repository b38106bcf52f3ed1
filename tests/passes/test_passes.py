"""Each pass on the smallest graph that needs it: what stands afterwards, and what must not."""

from __future__ import annotations

import pytest

from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.passes.cross_entropy import fuse_cross_entropy
from handtorch.passes.epilogue import fuse_epilogues
from handtorch.passes.rewrite import without_dead
from handtorch.passes.settle import settle
from handtorch.passes.views import fold_views


def graph(nodes: list[Node], inputs: list[Value], outputs: list[Value],
          states: list[State] | None = None) -> Graph:
    made = Graph(tuple(nodes), tuple(Port(f"x{v.id}", v) for v in inputs), tuple(states or ()),
                 tuple(Port(f"y{v.id}", v) for v in outputs))
    check(made, "test")
    return made


def ops(g: Graph) -> list[str]:
    return [n.op for n in g.nodes]


X = Value(0, (4, 6))


def test_dead_code_goes_with_all_that_served_it_only() -> None:
    a, b, c = (Value(i, (4, 6)) for i in (1, 2, 3))
    g = graph([Node("relu", (X,), (a,)), Node("relu", (a,), (b,)), Node("relu", (X,), (c,))],
              [X], [c])
    assert [n.outputs[0].id for n in without_dead(g).nodes] == [3]


def test_two_transposes_cancel_and_one_becomes_a_flag() -> None:
    w, t, tt, y = Value(1, (5, 6)), Value(2, (6, 5)), Value(3, (5, 6)), Value(4, (4, 5))
    t3 = Value(5, (6, 5))
    g = graph([Node("transpose", (w,), (t,), {"order": (1, 0)}),
               Node("transpose", (t,), (tt,), {"order": (1, 0)}),
               Node("transpose", (tt,), (t3,), {"order": (1, 0)}),
               Node("matmul", (X, t3), (y,))], [X, w], [y])
    out = fold_views(g)
    check(out, "views")
    assert ops(out) == ["matmul"]
    assert out.nodes[0].inputs == (X, w)
    assert out.nodes[0].flag("tb") and not out.nodes[0].flag("ta")


def test_a_transpose_somebody_else_reads_stays() -> None:
    t = Value(2, (6, 4))
    g = graph([Node("transpose", (X,), (t,), {"order": (1, 0)})], [X], [t])
    assert ops(fold_views(g)) == ["transpose"]


def test_relu_moves_into_the_product_that_only_it_reads() -> None:
    w, y, r = Value(1, (6, 5)), Value(2, (4, 5)), Value(3, (4, 5))
    nodes = [Node("matmul", (X, w), (y,), layer="fc"), Node("relu", (y,), (r,))]
    out = fuse_epilogues(graph(nodes, [X, w], [r]))
    check(out, "epilogues")
    assert ops(out) == ["matmul"] and out.nodes[0].words("epilogue") == ("relu",)
    assert out.nodes[0].layer == "fc"
    assert ops(fuse_epilogues(graph(nodes, [X, w], [r, y]))) == ["matmul", "relu"]


def test_the_gradient_of_relu_brings_its_output_along() -> None:
    w, g0, y, d = Value(1, (6, 5)), Value(2, (4, 5)), Value(3, (4, 5)), Value(4, (4, 5))
    out = fuse_epilogues(graph([Node("matmul", (X, w), (g0,)), Node("relu_grad", (g0, y), (d,))],
                               [X, w, y], [d]))
    assert out.nodes[0].inputs == (X, w, y) and out.nodes[0].words("epilogue") == ("relu_grad",)


def test_a_product_takes_one_activation_only() -> None:
    w, a, b, c = Value(1, (6, 5)), Value(2, (4, 5)), Value(3, (4, 5)), Value(4, (4, 5))
    out = fuse_epilogues(graph([Node("matmul", (X, w), (a,)), Node("relu", (a,), (b,)),
                                Node("relu", (b,), (c,))], [X, w], [c]))
    assert ops(out) == ["matmul", "relu"]


CONV = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1,
        "channels_last": True}


def test_a_convolution_adds_and_masks_what_it_stores() -> None:
    """As at the end of a residual block on the way back: of two convolutions that are added up the
    later one does it, and stands where its other inputs are there."""
    x, w, r, z = Value(0, (2, 3, 3, 4)), Value(1, (1, 1, 4, 4)), *(Value(i, (2, 3, 3, 4))
                                                                  for i in (2, 3))
    a, b, s, t, u = (Value(i, (2, 3, 3, 4)) for i in range(4, 9))
    nodes = [Node("conv", (x, w), (a,), CONV), Node("conv", (r, w), (b,), CONV),
             Node("add", (b, a), (s,)), Node("relu", (z,), (t,)),
             Node("relu_grad", (s, t), (u,))]
    out = fuse_epilogues(graph(nodes, [x, w, r, z], [u]))
    check(out, "epilogues")
    assert ops(out) == ["conv", "relu", "conv"]
    assert out.nodes[-1].words("epilogue") == ("add", "relu_grad")
    assert out.nodes[-1].inputs == (r, w, a, t)


def test_a_sum_that_stretches_is_no_epilogue() -> None:
    x, w, one = Value(0, (2, 3, 3, 4)), Value(1, (1, 1, 4, 4)), Value(2, (1, 1, 1, 4))
    a, s = Value(3, (2, 3, 3, 4)), Value(4, (2, 3, 3, 4))
    nodes = [Node("conv", (x, w), (a,), CONV), Node("add", (a, one), (s,))]
    assert ops(fuse_epilogues(graph(nodes, [x, w, one], [s]))) == ["conv", "add"]


def loss_graph(seed: float) -> Graph:
    y, logp, loss = Value(1, (4,), "i32"), Value(2, (4, 6)), Value(3, ())
    one, g1, g2 = Value(4, ()), Value(5, (4, 6)), Value(6, (4, 6))
    kind = {"reduction": "mean", "ignore": -100}
    return graph([Node("log_softmax", (X,), (logp,)), Node("nll_loss", (logp, y), (loss,), kind),
                  Node("fill", (), (one,), {"shape": (), "number": seed}),
                  Node("nll_loss_grad", (one, y), (g1,), {**kind, "shape": (4, 6)}),
                  Node("log_softmax_grad", (g1, logp), (g2,))], [X, y], [loss, g2])


def test_cross_entropy_becomes_one_node() -> None:
    out = fuse_cross_entropy(loss_graph(1.0))
    check(out, "cross-entropy")
    assert ops(out) == ["cross_entropy"]


def test_a_scaled_loss_keeps_its_parts() -> None:
    assert "cross_entropy" not in ops(fuse_cross_entropy(loss_graph(0.5)))


def sentences(order: tuple[int, ...]) -> Graph:
    """Logits [2, 7, 3], words in the second axis; `order` is what put them there."""
    shape = (2, 7, 3)
    source = Value(0, tuple(shape[order.index(i)] for i in range(3)))
    turned, logp, view = Value(1, shape), Value(2, shape), Value(3, (2, 7, 1, 3))
    labels, loss, one = Value(4, (2, 1, 3), "i32"), Value(5, ()), Value(6, ())
    g1, g2, g3 = Value(7, view.shape), Value(8, shape), Value(9, shape)
    back = Value(10, source.shape)
    kind = {"reduction": "mean", "ignore": 3}
    undo = tuple(order.index(i) for i in range(3))
    return graph([Node("transpose", (source,), (turned,), {"order": order}),
                  Node("log_softmax", (turned,), (logp,), {"axis": 1}),
                  Node("reshape", (logp,), (view,), {"shape": view.shape}),
                  Node("nll_loss", (view, labels), (loss,), kind),
                  Node("fill", (), (one,), {"shape": (), "number": 1.0}),
                  Node("nll_loss_grad", (one, labels), (g1,), {**kind, "shape": view.shape}),
                  Node("reshape", (g1,), (g2,), {"shape": shape}),
                  Node("log_softmax_grad", (g2, logp), (g3,), {"axis": 1}),
                  Node("transpose", (g3,), (back,), {"order": undo})],
                 [source, labels], [loss, back])


def test_classes_that_were_last_are_so_again() -> None:
    out = fuse_cross_entropy(sentences((0, 2, 1)))
    check(out, "cross-entropy")
    out = fold_views(out)
    check(out, "views")
    assert ops(out) == ["reshape", "reshape", "cross_entropy", "reshape"]


def test_classes_that_lie_apart_keep_their_parts() -> None:
    assert "cross_entropy" not in ops(fuse_cross_entropy(sentences((1, 2, 0))))


@pytest.mark.parametrize("op", ["sgd", "relu"])
def test_new_states_end_in_the_place_of_the_old(op: str) -> None:
    w, g, lr, new = Value(1, (4, 6)), X, Value(2, (1,)), Value(3, (4, 6))
    node = Node("sgd", (w, g, lr), (new,), {"momentum": 0.0, "decay": 0.0}) if op == "sgd" \
        else Node("relu", (w,), (new,))
    states = [State("w", "parameter", w, new), State("lr", "hyper", lr, lr)]
    out = settle(graph([node], [g], [], states))
    check(out, "settle")
    assert ops(out) == (["sgd"] if op == "sgd" else ["relu", "assign"])


def test_outputs_that_are_inputs_or_views_of_them_are_copied() -> None:
    v = Value(1, (24,))
    out = settle(graph([Node("reshape", (X,), (v,), {"shape": (24,)})], [X], [X, v]))
    check(out, "settle")
    assert ops(out) == ["reshape", "copy", "copy"]
