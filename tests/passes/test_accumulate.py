"""Micro-batches on small graphs: the same update for any number of rows and parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import CannotCapture
from handtorch.graph.check import check
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph, Node, Port, State, Value
from handtorch.graph.parts import update_part
from handtorch.passes.accumulate import Join, micro_batched, rows_to_compare
from handtorch.pipeline import compile_graph
from handtorch.runtime.host import RefExecutor
from handtorch.runtime.micro import MicroSession
from handtorch.runtime.session import Session


def regression(rows: int, wide: int, out: int, mean: bool, decay: float = 0.0) -> Graph:
    """y = x w, loss = sum or mean of y^2, and one step of SGD with momentum on w."""
    x, w, v, rate = (Value(0, (rows, wide)), Value(1, (wide, out)), Value(2, (wide, out)),
                     Value(3, (1,)))
    y, loss, two, dy, dw = (Value(4, (rows, out)), Value(5, ()), Value(6, ()),
                            Value(7, (rows, out)), Value(8, (wide, out)))
    new, moved = Value(9, (wide, out)), Value(10, (wide, out))
    each = 1 / (rows * out) if mean else 1.0
    graph = Graph((
        Node("matmul", (x, w), (y,)),
        Node("sum", (y,), (loss,), {"axes": (0, 1), "keepdim": False, "of": "square",
                                    "scale": each}),
        Node("fill", (), (two,), {"shape": (), "number": 2 * each}),
        Node("mul", (y, two), (dy,), phase="backward"),
        Node("matmul", (x, dy), (dw,), {"ta": True}, phase="backward"),
        Node("sgd", (w, dw, rate, v), (new, moved),
             {"momentum": 0.9, "decay": decay, "nesterov": False, "maximize": False},
             phase="optimizer"),
    ), (Port("x", x),), (State("w", "parameter", w, new), State("v", "optimizer", v, moved),
                         State("lr", "hyper", rate, rate)), (Port("loss", loss),))
    check(graph, "test")
    return graph


@settings(max_examples=40, deadline=None)
@given(few=st.integers(1, 4), parts=st.integers(2, 5), wide=st.integers(1, 5),
       out=st.integers(1, 4), mean=st.booleans())
def test_parts_update_as_the_batch_does(few: int, parts: int, wide: int, out: int, mean: bool
                                        ) -> None:
    rows = few * parts
    whole = regression(rows, wide, out, mean, 0.1)
    other = regression(rows_to_compare(rows, parts), wide, out, mean, 0.1)
    made = micro_batched(whole, other, parts)
    rng = np.random.default_rng(rows)
    states = {"w": rng.normal(size=(wide, out)).astype("f4"), "lr": np.array([0.01], "f4"),
              "v": np.zeros((wide, out), "f4")}
    one = Session(RefExecutor(), compile_graph(whole, GENERIC), states)
    many = MicroSession(RefExecutor(), compile_graph(made.graph, GENERIC), states, made)
    for _ in range(3):
        x = rng.normal(size=(rows, wide)).astype("f4")
        (want,), (loss,) = one.run([x]).result(), many.run([x]).result()
        np.testing.assert_allclose(loss, want, rtol=1e-5)
    for name in ("w", "v"):
        np.testing.assert_allclose(many.resident.read_state(name), one.resident.read_state(name),
                                   rtol=1e-5, atol=1e-5)
    assert many.steps == 3


def test_a_mean_is_scaled_and_a_sum_is_not() -> None:
    for mean, scale in ((True, 0.25), (False, 1.0)):
        made = micro_batched(regression(8, 3, 2, mean), regression(2, 3, 2, mean), 4)
        assert made.joins == (Join("sum", scale=scale),)
        (rate,) = [n for n in made.graph.nodes if n.op == "fill" and n.numbers("shape") == (1,)]
        assert rate.number("number") == scale


def test_the_update_stands_last_and_the_sum_is_part_of_the_product() -> None:
    made = micro_batched(regression(8, 3, 2, True), regression(2, 3, 2, True), 4)
    program = compile_graph(made.graph, GENERIC)
    ops = [n.op for n in program.graph.nodes]
    assert ops[program.update_node:] == ["sgd", "clear"]
    assert "matmul_sgd" in ops[:program.update_node]
    assert program.steps[program.update_step].kernel == "sgd"
    (sums,) = [s for s in program.graph.states if s.role == "accumulator"]
    assert (sums.name, sums.before.shape) == ("gradient.w", (3, 2))


def test_a_step_without_accumulators_has_one_part() -> None:
    graph = regression(4, 3, 2, True)
    assert update_part(graph) == frozenset()
    program = compile_graph(graph, GENERIC)
    assert (program.update_node, program.update_step) == (len(program.graph.nodes),
                                                          len(program.steps))


@pytest.mark.parametrize("rows", [8, 6])
def test_a_number_that_depends_on_the_rows_in_another_way_is_refused(rows: int) -> None:
    def graph(n: int) -> Graph:
        made = regression(n, 3, 2, True)
        nodes = list(made.nodes)
        nodes[2] = Node("fill", (), nodes[2].outputs, {"shape": (), "number": 1 / (n + 1)})
        return Graph(tuple(nodes), made.inputs, made.states, made.outputs)
    with pytest.raises(CannotCapture, match="depends on the number of rows, and is neither"):
        micro_batched(graph(rows), graph(2), rows // 2)
