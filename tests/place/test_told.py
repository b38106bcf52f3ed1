from __future__ import annotations

import json

import pytest

from handtorch.place.crossover import explained
from handtorch.place.decide import Target
from handtorch.place.told import record, replayed
from tests.place.situations import papers_phone


@pytest.mark.parametrize("target", [Target(), Target("energy", p50_s=5.0, memory_bytes=1e9),
                                    Target(private=True, p90_s=0.1)])
def test_a_decision_is_made_again_from_its_record(target: Target) -> None:
    decision = explained(papers_phone(cold=True), target)
    told = json.loads(json.dumps(record(decision)))
    again = replayed(told)
    assert (again.chosen, again.runner_up, again.qualified, again.reasons) == (
        decision.chosen, decision.runner_up, decision.qualified, decision.reasons)
    assert told["changes"] == list(decision.changes)


def test_unknown_figures_survive_with_their_reason() -> None:
    told = record(explained(papers_phone(), Target()))
    cpu = next(c for c in told["candidates"] if c["name"] == "device CPU")
    assert cpu["memory_bytes"] == {"value": None, "provenance": "unknown",
                                   "how": "nobody measured it"}
