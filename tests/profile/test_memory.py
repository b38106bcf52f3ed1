from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from handtorch.capture.step import capture_train_step
from handtorch.graph.device_spec import GENERIC
from handtorch.pipeline import compile_graph
from handtorch.plan.plan import aligned
from handtorch.profile.memory import alive, changes, held, process_peak_bytes
from handtorch.program import Program

RING = 3


def program(model: nn.Module, optimizer: Callable[..., torch.optim.Optimizer],
            x: torch.Tensor) -> Program:
    y = torch.zeros(len(x), dtype=torch.long)
    made = capture_train_step(model, nn.functional.cross_entropy,
                              optimizer(model.parameters()), (x, y))
    return compile_graph(made.graph, GENERIC)


@pytest.fixture(scope="module")
def conv() -> Program:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    return program(model, lambda p: torch.optim.Adam(p, lr=0.1), torch.randn(4, 3, 8, 8))


def test_the_peak_is_all_that_the_device_holds(conv: Program) -> None:
    found, plan = held(conv, RING), conv.plan
    staging = plan.staging_in_bytes + plan.staging_out_bytes
    assert sum(found.peak.values()) == plan.peak_bytes + RING * staging
    alive = sum(n for role, n in found.peak.items() if role != "slack")
    assert alive == plan.floor_bytes + staging
    assert found.peak_launch == plan.peak_step


def test_those_alive_at_the_peak_are_all_that_lies_in_the_arena_then(conv: Program) -> None:
    at = held(conv, RING).peak_launch
    found = alive(conv, at)
    assert sum(found.values()) == conv.plan.floor_bytes
    assert found["parameters: 0.weight"] == aligned(4 * 8 * 3 * 9)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    few = alive(conv, at, 2)
    assert list(few)[:2] == list(found)[:2] and sum(few.values()) == sum(found.values())
    assert "parameters: others" in few


def test_states_have_the_roles_that_the_optimizer_gives_them(conv: Program) -> None:
    found = held(conv, RING)
    sizes = [8 * 3 * 9, 8, 8, 8, 5 * 8, 5]
    weights = sum(aligned(4 * n) for n in sizes)
    assert found.peak["parameters"] == weights
    assert found.peak["optimizer state"] >= 2 * weights
    assert found.peak["inputs"] == aligned(4 * 4 * 3 * 64) + aligned(4 * 4)
    assert found.peak["buffers"] > 0
    assert set(found.over["parameters"]) == {weights}            # resident over the whole step


def test_a_gradient_lives_from_the_backward_pass_to_the_update(conv: Program) -> None:
    over = held(conv, RING).over["gradients"]
    phases = [conv.node_of(s).phase for s in conv.steps]
    assert over[0] == 0 and max(over) > 0
    for i, phase in enumerate(phases):
        if phase == "forward":
            assert over[i] == 0, i
    assert max(over) <= sum(aligned(s.before.nbytes) for s in conv.graph.states
                            if s.role == "parameter")


def test_every_launch_has_its_operands_in_memory(conv: Program) -> None:
    """What a launch touches is alive while it runs: no role forgets anything."""
    over = held(conv, RING).over
    for i, step in enumerate(conv.steps):
        places = {(conv.plan.places[o.value.id], o.value.nbytes) for o in step.operands}
        touched = sum(n for place, n in places if place.bank >= 0)
        assert touched <= sum(line[i] for line in over.values())


def test_a_single_layer() -> None:
    made = program(nn.Linear(3, 2), lambda p: torch.optim.SGD(p, lr=0.0), torch.randn(2, 3))
    assert held(made, 1).peak["parameters"] == aligned(24) + aligned(8)


def test_a_line_is_kept_where_it_changes() -> None:
    assert changes((5, 5, 7, 7, 5)) == [(0, 5), (2, 7), (4, 5)]
    assert changes(()) == []


def test_the_process_has_had_at_least_an_interpreter() -> None:
    assert process_peak_bytes() > 10 << 20
