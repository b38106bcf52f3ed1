"""A guard that needs no quiet machine: what a step costs may not grow unnoticed.

Launches, bytes crossing, planned peak and floor of every zoo model, small form, compiled for a
device that does not exist (so for the same one everywhere), against `budgets.json`. A change that
lowers a figure should lower the budget:

    python tests/zoo/test_budgets.py          writes budgets.json anew
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handtorch.zoo.registry import MODELS
from tests.zoo.train_like_torch import batches, compiled, start

FILE = Path(__file__).with_name("budgets.json")


def costs(name: str) -> dict[str, int]:
    entry = MODELS[name]
    program = compiled(entry, start(entry), "null", batches(entry)[0]).program
    return {"launches": len(program.steps), "bytes_crossing": program.bytes_crossing(),
            "kernels": len({(s.kernel, s.defines) for s in program.steps}),
            "peak_bytes": program.plan.peak_bytes, "floor_bytes": program.plan.floor_bytes}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_step_costs_more_than_its_budget(name: str) -> None:
    now, budget = costs(name), json.loads(FILE.read_text())[name]
    grown = {k: (budget[k], now[k]) for k in budget if now[k] > budget[k]}
    assert not grown, f"{name}: (budget, now) {grown}; see the head of this file"


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: costs(name) for name in MODELS}, indent=1) + "\n")
