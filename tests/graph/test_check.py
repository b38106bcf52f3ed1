"""A malformed graph is our bug: the check says after which stage and on which node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.graph.check import check
from handtorch.graph.node import Graph, Node, Port, State, Value

X, Y, W = Value(0, (2, 3)), Value(1, (2, 3)), Value(2, (3,))
GOOD = Graph((Node("add", (X, W), (Y,)),), (Port("x", X),), (State("w", "parameter", W, W),),
             (Port("y", Y),))


def test_a_good_graph_passes() -> None:
    check(GOOD, "capture")


@pytest.mark.parametrize(("node", "said"), [
    (Node("frobnicate", (X,), (Y,)), "unknown op"),
    (Node("add", (X, Value(9, (3,))), (Y,)), "is not written yet"),
    (Node("add", (X, W), (Value(1, (3, 2)),)), r"gives \(\(\(2, 3\), 'f32'\),\)"),
    (Node("add", (X, W), (Y,), phase="sideways"), "unknown phase"),
    (Node("copy", (X,), (X,)), "is written twice"),
])
def test_each_fault_is_named(node: Node, said: str) -> None:
    with pytest.raises(AssertionError, match=f"after fuse: .*{said}"):
        check(replace(GOOD, nodes=(node,)), "fuse")


def test_a_result_nobody_writes() -> None:
    with pytest.raises(AssertionError, match=r"result .* is never written"):
        check(replace(GOOD, nodes=()), "fold")


def test_a_state_that_changes_shape() -> None:
    with pytest.raises(AssertionError, match="w changes from"):
        check(replace(GOOD, states=(State("w", "parameter", W, Y),)), "fold")
