"""A model captured in a process with torch: its step saved to a file, its plans worked out.

    python -m handtorch.studies.training_prepare '{"model": ..., "save": {...}, "plan": [...]}'

Prints a line of JSON for each batch as it is done, so that what a killed one did is kept."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handtorch.api.budget import Fitting, device_bytes
from handtorch.capture.step import Captured, capture_user_step
from handtorch.errors import HandTorchError, OutOfMemory
from handtorch.graph.device_spec import DeviceSpec
from handtorch.program import Program
from handtorch.runtime.lifetime import end_with_parent
from handtorch.store.ht_file import HtFile, Part, write_ht
from handtorch.studies.training_cells import Kind, Planned
from handtorch.zoo.registry import MODELS
from handtorch.zoo.started import started


def main(text: str) -> None:
    end_with_parent()
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked = json.loads(text)
    spec = DeviceSpec.from_dict(asked["spec"])
    for batch in sorted({*asked["plan"], *map(int, asked["save"])}):
        try:
            told = _done(asked, batch, spec)
        except HandTorchError as e:
            told = {"error": e.message().splitlines()[0]}
        private.write(json.dumps({"batch": batch, **told}) + "\n")
        private.flush()


def _done(asked: Mapping[str, Any], batch: int, spec: DeviceSpec) -> dict[str, Any]:
    kind = Kind(**asked["kind"])
    captured, parameters = captured_step(kind, batch)
    if (path := asked["save"].get(str(batch))) is not None:
        write_ht(Path(path), HtFile(Part(captured.graph, captured.outputs), None, captured.states,
                                    captured.homes, 0))
    if batch not in asked["plan"]:
        return {}
    return {"planned": asdict(planned(kind, batch, captured, parameters, spec,
                                      asked["memory_bytes"]))}


def captured_step(kind: Kind, batch: int) -> tuple[Captured, int]:
    """The step with the weights that every process starts from, and how many they are."""
    begun = started(kind.model, kind.form, small=kind.small)
    example = MODELS[kind.model].batch(batch, kind.form, kind.small)
    return (capture_user_step(begun.call, [begun.model], begun.optimizers, example),
            begun.parameters)


def planned(kind: Kind, batch: int, captured: Captured, parameters: int, spec: DeviceSpec,
            memory_bytes: int) -> Planned:
    """What the plan holds, and what it comes down to where that is more than there is."""
    try:
        fitting = Fitting(captured.graph, spec)
    except OutOfMemory as e:
        return Planned(kind, batch, memory_bytes, None, None, None, 0.0, parameters, 0, 0,
                       e.message().splitlines()[0])
    whole = fitting.whole
    found = fitting.within(memory_bytes)
    return Planned(kind, batch, memory_bytes, device_bytes(whole.plan),
                   None if found is None else found.held_bytes,
                   None if found is None else found.slow_down, fitting.tape.time_ns / 1e9,
                   parameters, forward_flops(whole) // batch, len(whole.steps))


def forward_flops(program: Program) -> int:
    nodes = program.graph.nodes
    return sum(s.flops for s in program.steps if nodes[s.node].phase == "forward")


if __name__ == "__main__":
    main(sys.argv[1])
