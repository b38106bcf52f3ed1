"""A step op by op: what each op is, what it moves, and that it computes what torch computes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from handtorch.baseline.training import train
from handtorch.capture.step import Captured, capture_train_step
from handtorch.graph.device_spec import GENERIC
from handtorch.graph.node import Graph
from handtorch.runtime.choose import open_executor
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.studies.backprop_accounting import split
from handtorch.studies.backprop_one_op import OneOpAtATime, lower_ops, unfused
from handtorch.studies.backprop_pictures import started
from handtorch.zoo.registry import MODELS

pytestmark = pytest.mark.spread

ENTRY = MODELS["Model2"]
BATCH = tuple(t.numpy() for t in ENTRY.batch(32))
STEPS, WITHIN = 4, 1e-5                     # losses near 3: some 40 ulp


def captured() -> tuple[Any, Captured]:
    model = started("Model2")
    assert ENTRY.loss is not None
    return model, capture_train_step(model, ENTRY.loss, ENTRY.optimizers(model)[0], BATCH)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return unfused(captured()[1].graph)


def test_nothing_is_fused_and_a_bias_is_an_op_of_its_own(graph: Graph) -> None:
    ops = [n.op for n in graph.nodes]
    assert ops.count("matmul") == 3 + 3 + 2             # forward, weights' and inputs' gradients
    assert ops.count("add") == 3
    assert (ops.count("relu"), ops.count("relu_grad")) == (2, 2)
    assert ops.count("sgd") == 6
    assert "transpose" not in ops
    assert not any(n.attrs.get("epilogue") for n in graph.nodes)


def test_naive_products_are_naive_and_tuned_ones_are_not(graph: Graph) -> None:
    naive, tuned = (lower_ops(graph, GENERIC, naive=choice) for choice in (True, False))
    products = [(a, b) for a, b in zip(naive, tuned, strict=True) if a.node.op == "matmul"]
    for plain, chosen in products:
        turned = plain.node.flag("ta") + plain.node.flag("tb")
        assert [s.kernel for s in plain.steps] == ["move"] * turned + ["gemm_naive"]
        assert "gemm_naive" not in {s.kernel for s in chosen.steps}
        assert plain.moved_bytes == chosen.moved_bytes
    assert {p.node.flag("ta") for p, _ in products} == {True, False}
    others = [(a, b) for a, b in zip(naive, tuned, strict=True) if a.node.op != "matmul"]
    for a, b in others:
        assert [s.kernel for s in a.steps] == [s.kernel for s in b.steps]


def test_each_operand_and_each_result_moves_once_and_a_view_does_not(graph: Graph) -> None:
    ops = lower_ops(graph, GENERIC, naive=False)
    relu, view, sgd = (next(op for op in ops if op.node.op == name)
                       for name in ("relu", "reshape", "sgd"))
    assert relu.moved_bytes == 2 * 4 * 32 * 16
    assert view.moved_bytes == 0
    assert sgd.moved_bytes == 4 * (5 * 16 * 16 + 1)     # weight, gradient, moment, rate; two out


@pytest.mark.parametrize("naive", [True, False], ids=["naive", "tuned"])
def test_losses_are_torchs(opencl_device: Any, naive: bool) -> None:
    model, found = captured()
    twin, start = deepcopy(model), {k: v.copy() for k, v in found.states.items()}
    assert ENTRY.loss is not None
    x, y = BATCH
    expected = train(twin, ENTRY.loss, ENTRY.optimizers(twin)[0], [(x, y)] * STEPS)
    assert len(set(expected)) == STEPS                  # the weights do move
    on = open_executor(opencl_device.label)
    assert isinstance(on, OpenCLExecutor)
    steps = unfused(found.graph)
    one = OneOpAtATime(on, steps, lower_ops(steps, on.spec, naive=naive), found.states)
    losses = [float(one(x, y)[0]) for _ in expected]
    one.close()
    np.testing.assert_allclose(losses, expected, atol=WITHIN)
    for name, array in found.states.items():            # what was captured is left as it was
        np.testing.assert_array_equal(array, start[name])


def test_every_copy_and_every_launch_is_seen(opencl_device: Any) -> None:
    _, found = captured()
    on = open_executor(opencl_device.label)
    assert isinstance(on, OpenCLExecutor)
    steps = unfused(found.graph)
    ops = lower_ops(steps, on.spec, naive=False)
    one, again = (OneOpAtATime(on, steps, ops, found.states) for _ in range(2))
    first = [again(*BATCH)[0] for _ in range(2)]
    seen = one.observe(*BATCH)
    assert len(seen.kernels) == sum(len(op.steps) for op in ops)
    assert len(seen.copies) == sum(len(dict.fromkeys(op.node.inputs)) + len(op.node.outputs)
                                   for op in ops if op.steps)
    assert seen.fault() == ""
    assert min(split(seen).kernel_ns, split(seen).copy_ns, split(seen).wait_ns) > 0
    assert one.moved_bytes == sum(op.moved_bytes for op in ops)
    assert one(*BATCH)[0] == first[1] != first[0]       # an observed step trains like any other
    one.close()
    again.close()
