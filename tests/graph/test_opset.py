"""The op set is closed and complete: every op has a lowering, a reference and a cost."""

from __future__ import annotations

import pytest

from handtorch.graph.node import Node, Value
from handtorch.graph.ops.op import broadcast
from handtorch.graph.ops.product import matmul_sizes
from handtorch.graph.opset import OPS, flops
from handtorch.kernels.pointwise import EXPRESSIONS
from handtorch.lower.lower import LOWERINGS
from handtorch.runtime.ref.ops import REFERENCES


def test_every_op_has_a_lowering_and_a_reference() -> None:
    assert set(LOWERINGS) == set(OPS)
    assert set(REFERENCES) == set(OPS)


def test_every_pointwise_op_has_an_expression() -> None:
    assert {o.name for o in OPS.values() if o.pointwise} == set(EXPRESSIONS)


@pytest.mark.parametrize(("shapes", "result"), [
    ([(2, 3), (3,)], (2, 3)), ([(), (4,)], (4,)), ([(3, 1), (1, 5)], (3, 5)), ([(0,), (1,)], (0,)),
])
def test_broadcast(shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> None:
    assert broadcast(shapes) == result


def test_broadcast_refuses_what_does_not_match() -> None:
    with pytest.raises(AssertionError, match="do not match"):
        broadcast([(2, 3), (2,)])


def test_matmul_sizes_undo_transposes() -> None:
    node = Node("matmul", (Value(0, (7, 2)), Value(1, (5, 7))), (), {"ta": True, "tb": True})
    assert matmul_sizes(node) == (2, 5, 7)
    assert flops(node) == 2 * 2 * 5 * 7
