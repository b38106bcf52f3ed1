"""Torch's own record of operations: which, in what order, and when on the host's clock."""

from __future__ import annotations

import time

import pytest
import torch

from handtorch.baseline.torch_recorder import recording


def test_operations_lie_between_readings_of_the_clock_around_them() -> None:
    x, around = torch.ones(300, 300), []
    with recording() as record:
        for _ in range(20):
            before_ns = time.monotonic_ns()
            x.mm(x)
            around.append((before_ns, time.monotonic_ns()))
            time.sleep(0.001)
    assert [op.name for op in record.ops] == ["aten::mm"] * 20
    for (before_ns, after_ns), op in zip(around, record.ops, strict=True):
        assert before_ns - record.error_ns <= op.start_ns < op.end_ns
        assert op.end_ns <= after_ns + record.error_ns


def test_what_an_operation_calls_is_inside_it() -> None:
    with recording() as record:
        torch.nn.functional.linear(torch.ones(3, 4), torch.ones(5, 4), torch.ones(5))
    *made, linear = record.ops
    assert [op.name for op in made] == ["aten::ones"] * 3
    assert (linear.name, linear.shape) == ("aten::linear", (3, 4))
    assert [op.name for op in linear.inside] == ["aten::t", "aten::addmm"]
    assert all(linear.start_ns <= op.start_ns <= op.end_ns <= linear.end_ns
               for op in linear.inside)


def test_marks_and_nodes_of_autograd_are_no_operations() -> None:
    x = torch.ones(4, requires_grad=True)
    with recording() as record, torch.profiler.record_function("mine"):
        (x * 2).sum().backward()
    assert {op.name.partition("::")[0] for op in record.ops} == {"aten"}
    assert "aten::mul" in [op.name for op in record.ops]


def test_a_block_that_raises_ends_the_recording() -> None:
    with pytest.raises(ValueError, match="mine"), recording() as record:
        raise ValueError("mine")
    assert record.ops == ()
    with recording() as record:
        pass
    assert record.ops == ()
