"""The child that tries variants: it may die of one, and its parent goes on.

Takes requests as lines of JSON on standard input, answers each with one on what was standard
output; what a driver prints there goes to standard error instead."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

from handtorch.errors import HandTorchError, OutOfMemory
from handtorch.kernels.case import Case
from handtorch.kernels.results import as_problem
from handtorch.kernels.variant import as_variant
from handtorch.runtime.lifetime import end_with_parent
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose
from handtorch.tune.case import case_of, check_room

SAMPLES = 5
BLOCK_NS, WARM_UP_NS = 8_000_000, 16_000_000
Reply = dict[str, Any]


def attempt(on: OpenCLContext, case: Case, stop_ns: int | None, timed: bool) -> Reply:
    """Run the case; only if its numbers are right, time it if asked to, and stop early once a
    run takes longer than `stop_ns`."""
    bare = BareSteps(on, case.steps, case.given)
    try:
        bare.enqueue()
        bare.finish()
        values = {o.value.id: o.value for s in case.steps for o in s.operands}
        off = case.error({key: bare.read(values[key]) for key in case.expected})
        if off > 1:
            return {"state": "wrong", "why": f"off by {off:.3g} times the tolerance"}
        return {"state": "right", "times_ns": list(_times(bare, stop_ns)) if timed else []}
    finally:
        bare.close()


def _times(bare: BareSteps, stop_ns: int | None) -> Iterator[int]:
    """Nanoseconds of one run, the mean of each block."""
    once_ns = max(1, _timed(bare, 1))
    if once_ns < BLOCK_NS:                  # a single short run is mostly the cost of waiting
        several = ceil(WARM_UP_NS / once_ns)
        once_ns = max(1, _timed(bare, several) // several)
    count = ceil(BLOCK_NS / once_ns)
    for _ in range(SAMPLES):
        time_ns = max(1, _timed(bare, count) // count)
        yield time_ns
        if stop_ns is not None and time_ns > stop_ns:
            return


def _timed(bare: BareSteps, count: int) -> int:
    start_ns = time.perf_counter_ns()
    bare.enqueue(count)
    bare.finish()
    return time.perf_counter_ns() - start_ns


def serve(on: OpenCLContext, say: Callable[[Reply], None]) -> None:
    """Answer requests until there are no more, or the driver has failed."""
    say({"state": "ready"})
    for line in sys.stdin:
        asked = json.loads(line)
        problem, variant = as_problem(asked["problem"]), as_variant(asked["variant"])
        try:
            check_room(problem, on.spec)
            case = case_of(problem, variant, on.spec, asked["work"])
            say(attempt(on, case, asked["stop_ns"], asked["timed"]))
        except OutOfMemory as e:
            say({"state": "no room", "why": e.message().splitlines()[0]})
        except HandTorchError as e:
            say({"state": "refused", "why": e.message().splitlines()[0]})
        except on.cl.Error as e:            # at a launch: this context may be lost for good
            say({"state": "crashed", "why": f"the driver said: {str(e).splitlines()[0]}"})
            return


def main(label: str) -> None:
    end_with_parent()
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(reply: Reply) -> None:
        private.write(json.dumps(reply) + "\n")
        private.flush()

    try:
        on = OpenCLContext(choose(label))
    except HandTorchError as e:
        say({"state": "closed", "why": e.message().splitlines()[0]})
        return
    serve(on, say)


if __name__ == "__main__":
    main(sys.argv[1])
