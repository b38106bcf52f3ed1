"""What a batch must be, said in full where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handtorch.errors import BadInput
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.pipeline import compile_graph
from handtorch.runtime.host import RefExecutor
from handtorch.runtime.session import Limit, Session, index_limits

X, Y = Value(0, (2, 3)), Value(1, (2,), "i32")
GRAPH = Graph((Node("relu", (X,), (Value(2, (2, 3)),)),), (Port("x", X), Port("y", Y)), (),
              (Port("out", Value(2, (2, 3))),))
GOOD = (np.ones((2, 3), "f4"), np.zeros(2, "i8"))
COUNT = ("\n  try: x as float32[2, 3], y as int32 or int64[2]; a batch that is a tuple as "
         "step(*batch)")
BITS = (": the device has 32 bits for them, -2147483648 to 2147483647\n"
        "  try: smaller numbers, or float32")


def session_of(graph: Graph) -> Session:
    return Session(RefExecutor(), compile_graph(graph, RefExecutor().spec), {})


@pytest.mark.parametrize(("batch", "message"), [
    (GOOD[:1], "the step takes 2 inputs: 1 were given" + COUNT),
    ((*GOOD, 3), "the step takes 2 inputs: 3 were given" + COUNT),
    ((GOOD[0][:1], GOOD[1]),
     "input x is float32[1, 3]: the step was made for float32[2, 3]\n"
     "  try: batches like the example (drop_last=True in a DataLoader), or another step for this "
     "shape"),
    ((GOOD[0].astype("f8"), GOOD[1]),
     "input x is float64[2, 3]: the step was made for float32[2, 3]\n"
     "  try: x.float(), or astype('float32')"),
    ((GOOD[0], GOOD[1].astype("f4")),
     "input y is float32[2]: the step was made for int32 or int64[2]\n"
     "  try: x.long(), or astype('int64')"),
    ((GOOD[0], np.array([0, 2**31])), "input y holds numbers from 0 to 2147483648" + BITS),
    ((GOOD[0], np.array([-2**40, 5])), "input y holds numbers from -1099511627776 to 5" + BITS),
    (("text", GOOD[1]), "input x is a str: the step was made for float32[2, 3]\n"
                        "  try: give a tensor or an array"),
], ids=["too few", "too many", "shape", "dtype", "labels", "label above", "label below", "text"])
def test_a_batch_that_does_not_fit(batch: tuple[Any, ...], message: str) -> None:
    session = session_of(GRAPH)
    with pytest.raises(BadInput) as caught:
        session.run(batch)
    assert str(caught.value) == message
    assert session.run(GOOD).result()[0].tolist() == [[1.0] * 3] * 2        # nothing is lost


def test_rows_of_unequal_size() -> None:
    with pytest.raises(BadInput) as caught:
        session_of(GRAPH).run(([[1.0], [1.0, 2.0]], GOOD[1]))
    assert str(caught.value).startswith("input x: setting an array element with a sequence.")
    assert str(caught.value).endswith("\n  try: a CPU tensor or an array, float32[2, 3]")


def index_graph(*nodes: Node) -> Graph:
    return Graph(nodes, (Port("x", X), Port("y", Y)), (), (Port("out", nodes[-1].outputs[0]),))


TAKE = Node("take", (X, Y), (Value(2, (2, 3)),), {"axis": 0, "wrap": False})
WRAP = Node("take", (X, Y), (Value(2, (2, 2)),), {"axis": 1, "wrap": True})
LOSS = Node("nll_loss", (X, Y), (Value(2, ()),), {"reduction": "mean", "ignore": -100})
TURNED = (Node("reshape", (Y,), (Value(3, (2, 1), "i32"),), {"shape": (2, 1)}),
          Node("gather", (X, Value(3, (2, 1), "i32")), (Value(2, (2, 1)),), {"axis": 1}))


@pytest.mark.parametrize(("graph", "good", "bad", "why"), [
    (index_graph(TAKE), (0, 1), 2, "the rows it names are 0 to 1"),
    (index_graph(TAKE), (0, 1), -1, "the rows it names are 0 to 1"),
    (index_graph(WRAP), (-3, 2), 3, "the rows it names are -3 to 2"),
    (index_graph(LOSS), (-100, 2), 3, "the classes are 0 to 2, and -100 is left out"),
    (index_graph(LOSS), (-100, 2), -1, "the classes are 0 to 2, and -100 is left out"),
    (index_graph(*TURNED), (0, 2), 3, "the rows it names are 0 to 2"),
], ids=["row", "negative", "from the end", "class", "no class", "reshaped"])
@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_a_number_without_a_place_is_refused(graph: Graph, good: tuple[int, int], bad: int,
                                             why: str, kind: str) -> None:
    session = session_of(graph)
    assert np.isfinite(session.run((GOOD[0], np.array(good, kind))).result()[0]).all()
    with pytest.raises(BadInput) as caught:
        session.run((GOOD[0], np.array([good[1], bad], kind)))
    assert str(caught.value) == (
        f"input y holds {bad}: {why}\n"
        "  try: look at the labels or indices of this batch, or at the size of the layer")


def test_numbers_that_are_no_index_have_no_limits() -> None:
    assert index_limits(GRAPH) == ((), ())
    assert index_limits(index_graph(LOSS, LOSS)) == ((), (Limit(0, 2, -100, "the classes"),))
