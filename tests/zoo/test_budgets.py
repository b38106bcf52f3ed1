"""A guard that needs no quiet machine: what a step costs may not grow unnoticed.

Launches, bytes crossing, planned peak and floor of every zoo model, small form, compiled for a
device that does not exist (so for the same one everywhere), against `budgets.json`. A change that
lowers a figure should lower the budget:

    python tests/zoo/test_budgets.py          writes budgets.json anew

What else is asked of every model's graph stands here too, so that it is captured once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from handtorch.graph.ops.conv import TAPS_FIRST
from handtorch.store import limits
from handtorch.store.graph_json import graph_from_json, graph_to_json
from handtorch.store.suspect import parsed
from handtorch.zoo.registry import MODELS
from tests.passes.test_weights import turned, turns
from tests.zoo.train_like_torch import batches, compiled, start

FILE = Path(__file__).with_name("budgets.json")


@cache
def step_of(name: str) -> Any:
    entry = MODELS[name]
    return compiled(entry, start(entry), "null", batches(entry)[0])


def costs(name: str) -> dict[str, int]:
    program = step_of(name).program
    return {"launches": len(program.steps), "bytes_crossing": program.bytes_crossing(),
            "kernels": len({(s.kernel, s.defines) for s in program.steps}),
            "peak_bytes": program.plan.peak_bytes, "floor_bytes": program.plan.floor_bytes}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_step_costs_more_than_its_budget(name: str) -> None:
    now, budget = costs(name), json.loads(FILE.read_text())[name]
    grown = {k: (budget[k], now[k]) for k in budget if now[k] > budget[k]}
    assert not grown, f"{name}: (budget, now) {grown}; see the head of this file"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_graph_comes_back_from_json_as_it_was(name: str) -> None:
    """In its small form, which has the depth of the whole; far below the limits."""
    graph = step_of(name)._captured.graph
    text = json.dumps(graph_to_json(graph), separators=(",", ":"))
    assert graph_from_json(parsed(text)) == graph
    print(f"{name}: {len(graph.nodes)} nodes, {len(text)} bytes")
    assert len(graph.nodes) * 4 < limits.MOST_NODES
    assert len(text) * 4 < 32 << 20


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_weight_is_turned_in_a_step(name: str) -> None:
    graph = turned(step_of(name)._captured.graph)
    weights = {s.before.id for s in graph.states}
    gradients = {n.outputs[0].id for n in graph.nodes if n.op == "conv_grad_weight"}
    assert not [n for n in turns(graph) if n.inputs[0].id in weights | gradients
                and n.numbers("order") in (TAPS_FIRST, (3, 2, 0, 1), (2, 1, 0))]
    kinds = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)
    count = sum(isinstance(m, kinds) for m in start(MODELS[name]).modules())
    assert sum(bool(s.order) for s in graph.states if s.role == "parameter") == count


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: costs(name) for name in MODELS}, indent=1) + "\n")
