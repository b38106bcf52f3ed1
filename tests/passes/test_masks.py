"""A mask is kept as bytes for the way back, and nothing else changes, not a bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import handtorch as ht
from handtorch import pipeline
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.passes.masks import narrow_masks

pytestmark = pytest.mark.spread

X = torch.randn(64, 48, generator=torch.Generator().manual_seed(0))
Y = torch.randint(5, (64,), generator=torch.Generator().manual_seed(1))


def made(device: str) -> ht.TrainStep:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 300), torch.nn.Tanh(), torch.nn.Dropout(0.3),
                                torch.nn.Linear(300, 5))
    return ht.train_step(model, torch.nn.CrossEntropyLoss(),
                         torch.optim.SGD(model.parameters(), lr=0.1), example=(X, Y),
                         device=device, seed=3)


def kept(step: ht.TrainStep) -> list[tuple[str, int]]:
    """What of the mask's shape is made in the forward pass and read on the way back."""
    nodes = step.program.graph.nodes
    back = {v.id for n in nodes if n.phase != "forward" for v in n.inputs}
    return sorted((v.dtype, v.nbytes) for n in nodes if n.phase == "forward" for v in n.outputs
                  if v.id in back and v.size == 64 * 300)


def check(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = made(device)
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[0] != "masks"))
    wide = made(device)
    assert ("bool", 64 * 300) in kept(narrow) and ("bool", 64 * 300) not in kept(wide)
    assert (sum(n for _, n in kept(wide)) - sum(n for _, n in kept(narrow))) == 3 * 64 * 300
    assert len(narrow.program.steps) == len(wide.program.steps)
    assert [float(narrow(X, Y)) for _ in range(3)] == [float(wide(X, Y)) for _ in range(3)]
    for name, array in wide.state_dict().items():
        np.testing.assert_array_equal(narrow.state_dict()[name], array, err_msg=name)


def test_dropout_keeps_a_byte_an_element_on_ref(monkeypatch: pytest.MonkeyPatch) -> None:
    check("ref", monkeypatch)


def test_dropout_keeps_a_byte_an_element(opencl_device: Any, monkeypatch: pytest.MonkeyPatch
                                         ) -> None:
    check(opencl_device.label, monkeypatch)


def graph(*readers: str, result: bool = False) -> Graph:
    """A mask made float, and what reads the float."""
    x, mask, wide = Value(0, (4,), "f32"), Value(1, (4,), "bool"), Value(2, (4,), "f32")
    nodes = [Node("gt", (x, x), (mask,)), Node("bool_to_f32", (mask,), (wide,))]
    for i, op in enumerate(readers):
        ins, attrs = ((wide, x), {}) if op == "mul" else ((wide,), {"axes": (0,), "keep": False})
        nodes.append(Node(op, ins, (Value(3 + i, (4,) if op == "mul" else (), "f32"),), attrs))
    outs = [n.outputs[0] for n in nodes[2:]] + ([wide] if result else [])
    return Graph(tuple(nodes), (Port("x", x),), (), tuple(
        Port(f"y{i}", v) for i, v in enumerate(outs)))


@pytest.mark.parametrize(("given", "floats"), [
    (graph("mul"), 1), (graph("mul", "mul"), 2), (graph("mul", "mul", "mul"), 3),
    (graph("mul", "sum"), 1),                   # the sum needs the floats in memory anyway
    (graph("mul", "mul", result=True), 1)])     # and so does the user
def test_each_reader_has_its_own_where_none_needs_it_stored(given: Graph, floats: int) -> None:
    after = narrow_masks(given)
    assert sum(n.op == "bool_to_f32" for n in after.nodes) == floats
    assert [p.name for p in after.outputs] == [p.name for p in given.outputs]
