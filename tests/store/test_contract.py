"""What kernels take for granted is asked of a file's nodes: shapes that would reach beyond a
tensor are refused by the op's own rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from handtorch.graph.node import Node, Value
from handtorch.store.contract import check_node
from handtorch.store.suspect import Suspect

CONV = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
POOL = {"stride": (2, 2), "padding": (0, 0), "kernel": (2, 2)}
SGD = {"decay": 0.0, "maximize": False, "momentum": 0.9, "nesterov": False}
LSTM = {"batch_first": False, "reverse": False, "states": False, "save": False}
PICTURE, KERNEL = (1, 2, 8, 8), (4, 2, 3, 3)


def node(op: str, shapes: Sequence[Any], attrs: Any = (), out: Any = ()) -> Node:
    values = [Value(i, *(s if s and isinstance(s[0], tuple) else (s,)))
              for i, s in enumerate(shapes)]
    return Node(op, tuple(values), (Value(99, out),), dict(attrs))


LAWFUL = [
    node("conv", [PICTURE, KERNEL], CONV, (1, 4, 8, 8)),
    node("conv", [PICTURE, KERNEL, (4,)], {**CONV, "epilogue": ("bias",)}, (1, 4, 8, 8)),
    node("conv_grad_input", [(1, 4, 8, 8), KERNEL], {**CONV, "size": (8, 8)}),
    node("conv_grad_weight", [(1, 4, 8, 8), PICTURE], {**CONV, "kernel": (3, 3)}),
    node("max_pool", [PICTURE], {**POOL, "dilation": (1, 1), "size": (4, 4)}),
    node("avg_pool", [PICTURE], {"adaptive": True, "size": (3, 3)}),
    node("take", [(5, 3), ((7,), "i32")], {"axis": 1, "wrap": True}),
    node("nll_loss", [(6, 5), ((6,), "i32"), (5,)], {"ignore": -100, "reduction": "mean"}),
    node("matmul", [(3, 4), (4, 5), (5,)], {"epilogue": ("bias",)}),
    node("sgd", [(3, 4), (3, 4), (1,), (3, 4)], SGD),
    node("norm_stats", [(2, 3, 4), (3,), (3,)], {"split": (2, 3, 4), "eps": 1e-5, "momentum": 0.1}),
    node("layer_norm", [(2, 3), (3,)], {"axis": 1, "eps": 1e-5}),
    node("lstm", [(5, 2, 12), (12, 3)], LSTM),
    node("cat", [(2, 3), (2, 4)], {"axis": 1}),
    node("rand", [((3,), "u32")], {"shape": (4,), "stream": 0}),
]

BROKEN = [
    node("conv", [PICTURE, (4, 3, 3, 3)], CONV, (1, 4, 8, 8)),              # other channels
    node("conv", [PICTURE, KERNEL, (3,)], {**CONV, "epilogue": ("bias",)}, (1, 4, 8, 8)),
    node("conv", [PICTURE, KERNEL, (4,)], CONV, (1, 4, 8, 8)),              # a bias nobody adds
    node("conv", [PICTURE, KERNEL], {**CONV, "stride": (0, 1)}, (1, 4, 8, 8)),
    node("conv", [PICTURE, KERNEL], {**CONV, "padding": (-9, 0)}, (1, 4, 8, 8)),
    node("conv", [PICTURE, KERNEL], {**CONV, "groups": 0}, (1, 4, 8, 8)),
    node("conv_grad_input", [(1, 4, 90, 8), KERNEL], {**CONV, "size": (8, 8)}),
    node("conv_grad_weight", [(2, 4, 8, 8), PICTURE], {**CONV, "kernel": (3, 3)}),
    node("max_pool", [PICTURE], {**POOL, "dilation": (1, 1), "size": (5, 4)}),
    node("avg_pool_grad", [(1, 2, 4, 4)], {**POOL, "shape": (1, 3, 8, 8)}),
    node("avg_pool", [PICTURE], {"size": (4, 4)}),                          # no window named
    node("take", [(5, 3), ((7,), "i32")], {"axis": 2, "wrap": True}),
    node("take", [(5, 3), ((7,), "i32")], {"axis": -1, "wrap": True}),
    node("scatter", [((5, 3), "i32"), (5, 3)], {"axis": 5, "shape": (5, 3), "add": False}),
    node("nll_loss", [(6, 5), ((7,), "i32")], {"ignore": -100, "reduction": "mean"}),
    node("nll_loss", [(6, 5), ((6,), "i32"), (4,)], {"ignore": -100, "reduction": "mean"}),
    node("nll_loss_grad", [(6,), ((6,), "i32")],
         {"ignore": -100, "reduction": "mean", "shape": (6, 5)}),
    node("matmul", [(3, 4), (5, 5)]),
    node("matmul", [(2, 3, 4), (4, 5)]),
    node("matmul", [(3, 4), (4, 5), (4,)], {"epilogue": ("bias",)}),
    node("sgd", [(3, 4), (3, 4), (1,), (3, 3)], SGD),                       # a smaller moment
    node("sgd", [(3, 4), (4,), (1,)], SGD),
    node("adagrad", [(3,), (3,), (1,), (3,)], {"decay": 0.0, "maximize": False, "eps": 0.1}),
    node("tick", [(), (1,)], {"beta1": -1.0, "beta2": 0.9, "decay": 0.0, "lr_decay": 0.0}),
    node("norm_stats", [(2, 3, 4), (3,), (2,)],
         {"split": (2, 3, 4), "eps": 1e-5, "momentum": 0.1}),
    node("norm_stats", [(2, 3, 4)], {"split": (2, 3, 40), "eps": 1e-5}),
    node("layer_norm", [(2, 3), (2,)], {"axis": 1, "eps": 1e-5}),
    node("lstm", [(5, 2, 12), (12, 4)], LSTM),
    node("lstm", [(5, 2, 12), (12, 3), (2, 3), (1, 3)], {**LSTM, "states": True}),
    node("cat", [(2, 3), (2, 3, 1)], {"axis": 1}),
    node("sum", [(2, 3)], {"axes": (0, 0)}),
    node("softmax", [(2, 3)], {"axis": 2}),
    node("rand", [((2,), "u32")], {"shape": (4,), "stream": 0}),
    node("randint", [((3,), "u32")], {"shape": (4,), "stream": 0, "low": 3, "high": 3}),
    node("fill", [], {"shape": (2,), "number": 0.5, "dtype": "i32"}),
    node("pad", [(2,)], {"shape": (4,), "starts": (1,), "steps": (-1,), "number": 0.0}),
]


@pytest.mark.parametrize("lawful", LAWFUL, ids=lambda n: n.op)
def test_what_is_lawful_passes(lawful: Node) -> None:
    check_node(lawful, "node 0")


@pytest.mark.parametrize("broken", BROKEN, ids=lambda n: n.op)
def test_a_shape_that_does_not_fit_is_refused(broken: Node) -> None:
    with pytest.raises(Suspect, match=f"node 0, {broken.op}, does not fit its inputs"):
        check_node(broken, "node 0")


@pytest.mark.parametrize(("wrong", "said"), [
    (node("add", [(2,)]), "add, has inputs of types 'f32', and takes N N"),
    (node("add", [(2,), ((2,), "i32")]), "add, has inputs of types 'f32 i32', and takes N N"),
    (node("exp", [((2,), "bool")]), "exp, has inputs of types 'bool', and takes f32"),
    (node("sum", [((2,), "bool")], {"axes": (0,)}), "has inputs of types 'bool', and takes N"),
    (node("matmul", [(2, 2), ((2, 2), "i32")]), "has inputs of types 'f32 i32'"),
    (node("fill", [(1,)]), "has inputs of types 'f32', and takes none"),
    (node("cat", [(2,), ((2,), "i32")], {"axis": 0}), "has inputs of types 'f32 i32'"),
    (node("sgd", [(3,), (3,), (1,)], {**SGD, "momentum": float("inf")}), "has momentum=inf"),
    (node("sgd", [(3,), (3,), (1,)], {**SGD, "nesterov": 1}), "has nesterov=1, which the op"),
    (node("take", [(5,), ((7,), "i32")], {"axis": 1 << 40, "wrap": True}), "has axis=10995116277"),
    (node("conv", [PICTURE, KERNEL], {**CONV, "channels_last": True}), "has 'channels_last'"),
])  # fmt: skip
def test_types_and_attributes_are_asked_for(wrong: Node, said: str) -> None:
    with pytest.raises(Suspect) as caught:
        check_node(wrong, "node 0")
    assert said in str(caught.value)
