"""A decision as a record: plain words and numbers that JSON can hold, and a decision again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handtorch.place.decide import Decision, Target, decide
from handtorch.place.known import Known
from handtorch.place.situation import Candidate

_FIGURES = ("p50_s", "p90_s", "energy_j", "memory_bytes")


def record(decision: Decision) -> dict[str, Any]:
    target = decision.target
    return {
        "target": {"objective": target.objective, "private": target.private, **target.limits()},
        "chosen": decision.chosen.name, "place": decision.chosen.place,
        "runner_up": decision.runner_up and decision.runner_up.name,
        "qualified": decision.qualified, "reasons": list(decision.reasons),
        "changes": list(decision.changes),
        "candidates": [{**_candidate(j.candidate), "forbidden": j.forbidden,
                        "against": list(j.against)} for j in decision.judged]}


def _candidate(one: Candidate) -> dict[str, Any]:
    figures = {name: _known(getattr(one, name)) for name in _FIGURES}
    return {"name": one.name, "place": one.place, **figures, "seconds": dict(one.seconds),
            "joules": dict(one.joules), "doubts": list(one.doubts)}


def _known(known: Known) -> dict[str, Any]:
    return {"value": known.value, "provenance": known.provenance, "how": known.how}


def replayed(told: Mapping[str, Any]) -> Decision:
    """Decided again from the figures in a record: the same, unless the rules have changed."""
    candidates = [
        Candidate(c["name"], c["place"], seconds=c["seconds"], joules=c["joules"],
                  doubts=tuple(c["doubts"]), **{name: Known(**c[name]) for name in _FIGURES})
        for c in told["candidates"]]
    return decide(candidates, Target(**told["target"]))
