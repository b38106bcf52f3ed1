"""A recurrent layer and the product that feeds it become one node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.graph.opset import flops
from handtorch.passes.recurrent import fuse_input_products

T, B, H, IN = 3, 2, 5, 4
X, W, BIAS = Value(0, (T * B, IN)), Value(1, (4 * H, IN)), Value(2, (4 * H,))
U = Value(3, (4 * H, H))
FLAT, GX = Value(4, (T * B, 4 * H)), Value(5, (B, T, 4 * H))
Y, HN, CN = Value(6, (B, T, H)), Value(7, (B, H)), Value(8, (B, H))
PRODUCT = Node("matmul", (X, W, BIAS), (FLAT,), {"tb": True, "epilogue": ("bias",)})
VIEW = Node("reshape", (FLAT,), (GX,), {"shape": GX.shape})
LAYER = Node("lstm", (GX, U), (Y, HN, CN), {"batch_first": True, "states": False}, layer="net")


def graph(*nodes: Node, outputs: tuple[Value, ...] = (Y,)) -> Graph:
    made = Graph(nodes, tuple(Port(f"x{v.id}", v) for v in (X, W, BIAS, U)), (),
                 tuple(Port(f"y{v.id}", v) for v in outputs))
    check(made, "test")
    return made


@pytest.mark.parametrize("bias", [(), (BIAS,)], ids=["plain", "bias"])
def test_the_layer_takes_the_product_over(bias: tuple[Value, ...]) -> None:
    product = replace(PRODUCT, inputs=(X, W, *bias),
                      attrs={"tb": True, "epilogue": ("bias",) if bias else ()})
    out = fuse_input_products(graph(product, VIEW, LAYER))
    check(out, "recurrent layers")
    (node,) = out.nodes
    assert (node.op, node.inputs, node.outputs) == ("lstm_layer", (X, W, *bias, U), (Y, HN, CN))
    assert node.attrs == {**LAYER.attrs, "time": T, "input_bias": bool(bias)}
    assert node.layer == "net"
    assert flops(node) == flops(LAYER) + 2 * T * B * 4 * H * IN


@pytest.mark.parametrize("read", [FLAT, GX], ids=["product", "view"])
def test_a_product_that_others_read_stays(read: Value) -> None:
    g = graph(PRODUCT, VIEW, LAYER, outputs=(Y, read))
    assert fuse_input_products(g).nodes == g.nodes


def test_a_product_with_more_to_do_stays() -> None:
    g = graph(replace(PRODUCT, attrs={"tb": True, "epilogue": ("bias", "relu")}), VIEW, LAYER)
    assert fuse_input_products(g).nodes == g.nodes


def test_what_is_no_product_of_weights_as_they_lie_stays() -> None:
    turned = Value(9, (IN, 4 * H))
    product = Node("matmul", (X, turned), (FLAT,))
    g = graph(Node("transpose", (W,), (turned,), {"order": (1, 0)}), product, VIEW, LAYER)
    assert fuse_input_products(g).nodes == g.nodes


def test_a_layer_that_is_given_its_gx_stays() -> None:
    g = Graph((LAYER,), (Port("gx", GX), Port("u", U)), (), (Port("y", Y),))
    assert fuse_input_products(g).nodes == g.nodes
