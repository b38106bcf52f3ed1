"""Times before anything runs: the roofline by hand, and taken times before estimated ones."""

from __future__ import annotations

from dataclasses import replace

from pytest import approx

from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Value
from handtorch.graph.step import Operand, Step
from handtorch.plan.cost import (
    Roofline,
    estimated,
    moving_nodes,
    node_times_ns,
    shape_of,
    workspace_bytes,
)

ROOF = Roofline(flops_per_s=1e9, bytes_per_s=1e8, launch_ns=500.0, source="measured")
X, Y, SCRATCH = Value(0, (10,)), Value(1, (10,)), Value(7, (4,))


def step(node: int, *values: Value, flops: int = 0, moved: int = 0) -> Step:
    return Step("copy", tuple(Operand(v, "r") for v in values), (1,), (1,), node=node, flops=flops,
                bytes=moved)


def test_arithmetic_or_memory_whichever_is_longer_and_the_launch() -> None:
    assert ROOF.step_ns(step(0, X, flops=2000)) == approx(2000 + 500)
    assert ROOF.step_ns(step(0, X, flops=2000, moved=1000)) == approx(10_000 + 500)


def test_a_node_moves_if_none_of_its_launches_waits_for_arithmetic() -> None:
    moved, busy = step(0, X, flops=2000, moved=1000), step(1, X, flops=2000, moved=100)
    assert moving_nodes((moved, busy), ROOF) == {0}
    assert moving_nodes((moved, replace(busy, node=0), replace(moved, node=2)), ROOF) == {2}


def test_a_node_has_the_time_of_its_launches_as_taken_if_it_was() -> None:
    steps = (step(0, X, flops=100), step(2, X, Y), step(2, Y, flops=100))
    taken = {shape_of(steps[1]): 77.0}
    assert node_times_ns(steps, 3, ROOF, taken) == approx([600.0, 0.0, 677.0])


def test_launches_of_the_same_sizes_on_other_values_are_of_one_kind() -> None:
    assert shape_of(step(0, X)) == shape_of(step(5, Y))
    assert shape_of(step(0, X)) != shape_of(step(0, SCRATCH))


def test_workspace_is_what_the_graph_does_not_know_the_most_at_once() -> None:
    steps = (step(0, X, SCRATCH), step(0, SCRATCH, SCRATCH), step(1, X))
    assert workspace_bytes(steps, 2, {0, 1}) == [16, 0]


def test_a_sheet_with_twice_the_units_is_estimated_twice_as_fast() -> None:
    one, two = estimated(GENERIC), estimated(replace(GENERIC, compute_units=4))
    assert one.source == "estimated"
    assert two.flops_per_s == approx(2 * one.flops_per_s)
