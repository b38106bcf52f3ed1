"""Graphs as JSON: what comes back is what went in, and what is wrong is refused by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from handtorch.capture.step import (
    capture_function,
    capture_inference,
    capture_train_step,
)
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.graph.ops.pointwise import SIMPLE
from handtorch.graph.opset import OPS
from handtorch.graph.text import graph_text
from handtorch.store import limits
from handtorch.store.contract import CONTRACTS
from handtorch.store.graph_json import graph_from_json, graph_to_json
from handtorch.store.suspect import Suspect, parsed
from handtorch.zoo.digits import digits_training

PASSES_ONLY = {"assign", "clear", "cross_entropy", "matmul_sgd", "pointwise",
               "lstm_layer", "gru_layer", "rnn_layer", "weights_grad"}


def digits() -> Graph:
    x, y = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
    return capture_train_step(*digits_training(), (x, y)).graph


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return json.loads(json.dumps(graph_to_json(digits())))  # type: ignore[no-any-return]


def test_a_graph_comes_back_as_it_was() -> None:
    graph = digits()
    text = json.dumps(graph_to_json(graph))
    back = graph_from_json(parsed(text))
    assert back == graph
    assert graph_text(back) == graph_text(graph)
    assert [n.where for n in back.nodes] == [n.where for n in graph.nodes]
    assert json.dumps(graph_to_json(back)) == text


def functions() -> dict[str, Callable[..., Any]]:
    f = torch.nn.functional
    return {
        "mask": lambda x: x.masked_fill(x > 0, float("-inf")).amax(1),
        "picture": lambda x: f.max_pool2d(f.conv2d(x.reshape(1, 1, 4, 4), torch.ones(2, 1, 2, 2),
                                                   padding=1), 2, ceil_mode=True),
        "pooled": lambda x: f.adaptive_avg_pool2d(x.reshape(1, 1, 4, 4), (3, 2)),
        "rows": lambda x: f.layer_norm(x, (4,)).index_select(0, torch.tensor([2, 0, 1])),
        "loss": lambda x: f.cross_entropy(x, torch.tensor([1, 2, 0, 3]), reduction="none"),
        "boxes": lambda x: torch.cat([x.flip(0), f.pad(x, (1, 2))[:, ::2]], 1).t(),
        "chance": lambda x: f.dropout(x, 0.5, True) + torch.randn_like(x),
        "scan": lambda x: x.softmax(0).cumsum(1).std(),
    }


@pytest.mark.parametrize("name", functions())
def test_many_ops_come_back_as_they_were(name: str) -> None:
    graph = capture_function(functions()[name], [torch.ones(4, 4)]).graph
    back = graph_from_json(parsed(json.dumps(graph_to_json(graph))))
    assert back == graph
    kinds = [[(k, type(a), [type(e) for e in a] if isinstance(a, tuple) else ())
              for k, a in n.attrs.items()] for n in (*graph.nodes, *back.nodes)]
    assert kinds[:len(graph.nodes)] == kinds[len(graph.nodes):]


def test_recurrent_layers_come_back_as_they_were() -> None:
    class Rows(torch.nn.Module):
        def __init__(self, layer: torch.nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x)[0]

    for layer in (torch.nn.LSTM(4, 3), torch.nn.GRU(4, 3, bidirectional=True), torch.nn.RNN(4, 3)):
        graph = capture_inference(Rows(layer), [torch.ones(5, 2, 4)]).graph
        assert graph_from_json(parsed(json.dumps(graph_to_json(graph)))) == graph


def test_numbers_keep_their_kinds() -> None:
    made = [Node("fill", (), (Value(i, ()),), {"shape": (), "number": n, "dtype": "f32"})
            for i, n in enumerate((1.0, float("inf"), float("-inf"), float("nan"), -0.0, 1e-300))]
    graph = Graph(tuple(made), (), (), (Port("out", made[0].outputs[0]),))
    back = graph_from_json(parsed(json.dumps(graph_to_json(graph), allow_nan=False)))
    assert [repr(n.attrs["number"]) for n in back.nodes] == [
        "1.0", "inf", "-inf", "nan", "-0.0", "1e-300"]


def test_every_op_of_capture_has_a_contract() -> None:
    assert set(CONTRACTS) == set(OPS) - PASSES_ONLY
    assert set(SIMPLE) <= set(CONTRACTS)


def put(told: Any, path: tuple[Any, ...], new: Any) -> Any:
    told = copy.deepcopy(told)
    at = told
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return told


def index(told: dict[str, Any], op: str) -> int:
    return next(i for i, n in enumerate(told["nodes"]) if n["op"] == op)


@pytest.mark.parametrize(("path", "new", "said"), [
    (("values", 0, 0), True, "the id of a value is True, and must be a whole number"),
    (("values", 1, 0), 9, "value 9 is there twice"),
    (("values", 0, 1), "f16", "the dtype of value 9 is 'f16', which this version does not know"),
    (("values", 0, 2), [1 << 20, 1 << 20], "a tensor has at most 2147483647 elements"),
    (("values", 0, 2), [1] * 13, "must be a list of 0 to 12"),
    (("values", 0, 2), [-1], "a size of value 9 is -1"),
    (("values", 0, 2), [2.0], "a size of value 9 is 2.0"),
    (("nodes", 0, "op"), "system", "node 0 is 'system', which is no op a file may hold"),
    (("nodes", 0, "op"), "pointwise", "node 0 is 'pointwise', which is no op a file may hold"),
    (("nodes", 0, "op"), "x" * 65, "must be a text of at most 64 letters"),
    (("nodes", 0, "in"), [12345], "names the value 12345, which is not there"),
    (("nodes", 0, "phase"), "sideways", "is 'sideways', which this version does not know"),
    (("nodes", 0, "line"), 10**6, "the line of transpose is 1000000"),
    (("nodes", 0, "attrs"), {"order": [0, 0]}, "node 0, transpose, does not fit its inputs"),
    (("nodes", 0, "attrs"), {"order": [1, True]}, "has order=(1, True), which the op does not"),
    (("nodes", 0, "attrs"), {"order": [1, 0], "body": "x"}, "has 'body', which the op does not"),
    (("nodes", 0, "attrs"), {}, "node 0, transpose, has no 'order'"),
    (("states", 0, 1), "king", "the role of 0.weight is 'king'"),
    (("states", 1, 0), "0.weight", "two states have one name"),
    (("inputs", 1), ["y", 9], "one value comes from outside twice"),
    (("outputs", 0, 1), 10**9, "outputs names the value 1000000000"),
    (("nodes",), {}, "nodes is {}, and must be a list of 0 to 65536"),
    (("more",), 1, "a graph has 'more', which this version does not know"),
])  # fmt: skip
def test_what_is_wrong_is_named(told: dict[str, Any], path: tuple[Any, ...], new: Any, said: str
                                ) -> None:
    with pytest.raises(Suspect) as caught:
        graph_from_json(put(told, path, new))
    assert said in str(caught.value)


def test_a_node_that_gives_another_shape_is_refused(told: dict[str, Any]) -> None:
    at = next(i for i, v in enumerate(told["values"]) if v[0] == told["outputs"][0][1])
    with pytest.raises(Suspect, match="its graph is not well-formed"):
        graph_from_json(put(told, ("values", at, 2), [1]))


CODE = "1;} __kernel void x(){} //"


@pytest.mark.parametrize(("op", "attr", "text"), [
    ("nll_loss", "reduction", CODE), ("nll_loss", "reduction", ["mean"]),
    ("matmul", "epilogue", [CODE]), ("matmul", "epilogue", ["bias", "bias"]),
    ("matmul", "ta", CODE), ("sgd", "momentum", CODE), ("fill", "dtype", CODE),
    ("fill", "number", "0.0f;"), ("sum", "of", CODE), ("nll_loss", "ignore", CODE),
])  # fmt: skip
def test_no_text_of_a_file_gets_into_a_kernel(told: dict[str, Any], op: str, attr: str, text: Any
                                              ) -> None:
    """Every attribute that is rendered or compared is a number or a word of the op's own."""
    place = ("nodes", index(told, op), "attrs", attr)
    with pytest.raises(Suspect) as caught:
        graph_from_json(put(told, place, text))
    assert f"{op}, has {attr}=" in str(caught.value)


def test_too_many_nodes_are_refused_before_they_are_read(told: dict[str, Any]) -> None:
    with pytest.raises(Suspect, match="must be a list of 0 to 65536"):
        graph_from_json(put(told, ("nodes",), [None] * (limits.MOST_NODES + 1)))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": 1, "a": 2}', "NaN", "9" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(Suspect, match="is not JSON that can be used"):
        parsed(text)
