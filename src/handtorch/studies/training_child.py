"""One cell of the study `training`, in a process of its own: what it takes is this cell's alone.

    python -m handtorch.studies.training_child '{"side": "device", ...}'

Prints one line of JSON. The side "device" runs a saved step and never loads torch; "torch" runs the
same model from the same weights; "bare" is a process with the driver loaded and next to no step."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from handtorch.api.given import as_list
from handtorch.errors import HandTorchError
from handtorch.kernels.case import Array
from handtorch.meters.used import forget_peak, memory_of_process
from handtorch.runtime.lifetime import end_with_parent

WARM_UP = 3                             # steps left out, as in the paper
BATCHES = 4                             # different ones, in turn
OBSERVED = 3                            # steps whose launches are looked at, after the others
Batches = list[tuple[Array, ...]]
Train = Callable[[Sequence[Array]], list[float]]


def main(text: str) -> None:
    end_with_parent()
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                       # what a driver prints is no answer
    asked = json.loads(text)
    sides: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
        "torch": run_torch, "device": run_device, "bare": run_bare}
    try:
        found = sides[asked["side"]](asked)
    except HandTorchError as e:
        found = {"error": e.message().splitlines()[0], "kind": type(e).__name__}
    except MemoryError:
        found = {"error": "there was not enough memory for it", "kind": "MemoryError"}
    private.write(json.dumps(found) + "\n")
    private.flush()


def batches_of(asked: Mapping[str, Any]) -> tuple[Batches, str]:
    """The first few of the model's feed, made in another process; and where they are from."""
    from handtorch.zoo.data.ahead import feed_ahead

    with feed_ahead(asked["model"], asked["batch"], form=asked["form"], small=asked["small"],
                    path=asked.get("data", ""), last=BATCHES) as ahead:
        return [tuple(np.array(a) for a in batch) for batch in ahead], ahead.source


def run_torch(asked: Mapping[str, Any]) -> dict[str, Any]:
    from handtorch.zoo.started import started

    batches, source = batches_of(asked)
    before = memory_of_process("VmRSS")
    step = started(asked["model"], asked["form"], small=asked["small"])
    found = _trained(step.losses, batches, asked, before)
    return {**found, "source": source}


def run_device(asked: Mapping[str, Any]) -> dict[str, Any]:
    from handtorch.api.load import load
    from handtorch.api.step import TrainStep
    from handtorch.runtime.choose import open_executor

    open_executor(asked["device"])
    batches, source = batches_of(asked)
    before = memory_of_process("VmRSS")
    start = time.monotonic()
    step = load(asked["file"], asked["device"], memory=asked.get("memory"))
    assert isinstance(step, TrainStep)
    prepare_s = time.monotonic() - start

    def train(batch: Sequence[Array]) -> list[float]:
        return [float(loss) for loss in as_list(step(*batch))]

    found = _trained(train, batches, asked, before)
    found["use"]["device"] = _busy_share(step, batches)
    found["memory"] |= _planned(step)
    step.close()
    return {**found, "source": source, "prepare_s": prepare_s}


def run_bare(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same process around a step of next to nothing: what is there whatever is trained."""
    found = run_device(asked)
    return {"bytes": found["memory"]["peak_bytes"], "planned": found["memory"]["planned_bytes"],
            "launches": found["memory"]["launches"], "kernels": found["memory"]["kernels"]}


def _trained(train: Train, batches: Batches, asked: Mapping[str, Any], before: int
             ) -> dict[str, Any]:
    """The first steps with their losses, then those that count."""
    from dataclasses import asdict

    from handtorch.baseline.fair import moment, share_of_others
    from handtorch.studies.training_watch import Length, watched

    load_peak = memory_of_process("VmHWM")
    forget_peak()
    losses = [train(batches[i % BATCHES]) for i in range(WARM_UP)]
    begin = moment()
    found = watched(lambda i: train(batches[(WARM_UP + i) % BATCHES]), Length(**asked["length"]))
    others = share_of_others(begin)
    memory = {"peak_bytes": memory_of_process("VmHWM"), "before_bytes": before,
              "load_peak_bytes": load_peak,
              "batches_bytes": sum(a.nbytes for batch in batches for a in batch)}
    return {"step_s": found.step_s, "losses": losses, "use": asdict(found.use),
            "power": asdict(found.power), "memory": memory, "others": others}


def _busy_share(step: Any, batches: Batches) -> float:
    """Of the time of some steps, queued as a user does, the share in which a launch ran."""
    step.resident.finish()
    start = time.perf_counter_ns()
    tickets = [step(*batches[i % BATCHES], timed=True) for i in range(OBSERVED)]
    step.resident.finish()
    wall = time.perf_counter_ns() - start
    spans = sorted((t.start_ns, t.end_ns) for given in tickets
                   for t in as_list(given)[0].ticket.launch_times())
    busy, reached = 0, 0
    for begin, end in spans:
        busy += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return min(1.0, busy / wall)


def _planned(step: Any) -> dict[str, Any]:
    from handtorch.api.budget import device_bytes
    from handtorch.profile.memory import held
    from handtorch.runtime.opencl.resident import RING

    program = step.program
    return {"planned_bytes": device_bytes(program.plan), "launches": len(program.steps),
            "kernels": len({(s.kernel, s.defines) for s in program.steps}),
            "roles": dict(held(program, RING).peak)}


if __name__ == "__main__":
    main(sys.argv[1])
