"""The time of each kind of launch of a program, taken one by one on the device.

It needs the memory of one launch, not of the program. Each run finds the caches as a step would,
full of something else: a copy of that size goes before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median

from handtorch.graph.step import Step
from handtorch.kernels.render import step_instance
from handtorch.kernels.roofline import copy_step
from handtorch.plan.cost import Shape, shape_of
from handtorch.program import Program
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.kept_times import KeptTimes, key_of
from handtorch.runtime.opencl.prebuild import compile_steps

_RUNS = 3
_FLUSH_FLOATS = 8 << 20              # 32 MB read and 32 MB written: more than caches of our class
MOST_S = 60.0                        # of timing; kinds that are left wait for the next call
_SAVED_S = 5.0                       # at most that much timing is lost with the process


Said = Callable[[int, int], None]    # how many kinds are timed, of how many


def launch_times_ns(on: OpenCLContext, program: Program, said: Said = lambda done, of: None
                    ) -> dict[Shape, float]:
    """By kind of launch the median of three, the most frequent kinds first.

    Times are kept (`kept_times.py`): only kinds that were never timed on this device and driver
    are run, and what an interrupted call has timed need not be timed again."""
    count: dict[Shape, int] = {}
    first: dict[Shape, Step] = {}
    for step in program.steps:
        count[shape_of(step)] = count.get(shape_of(step), 0) + 1
        first.setdefault(shape_of(step), step)
    kept, keys = KeptTimes(on.spec), {kind: key_of(step) for kind, step in first.items()}
    missing = [kind for kind in first if kept.get(keys[kind]) is None]
    missing.sort(key=lambda k: (-count[k], k.kernel, k.sizes))
    if missing:
        saved_s = time.monotonic()
        said(0, len(missing))
        try:
            for done, (kind, time_ns) in enumerate(
                    _taken(on, program, {k: first[k] for k in missing}), 1):
                kept.put(keys[kind], time_ns)
                said(done, len(missing))
                if time.monotonic() > saved_s + _SAVED_S:
                    kept.save()
                    saved_s = time.monotonic()
        finally:
            kept.save()
    return {kind: ns for kind, key in keys.items() if (ns := kept.get(key)) is not None}


def _taken(on: OpenCLContext, program: Program, kinds: Mapping[Shape, Step]
           ) -> Iterator[tuple[Shape, float]]:
    compiled = compile_steps(on, program.steps, program.plan, program.built)
    flush = BareSteps(on, (copy_step(on.spec, min(_FLUSH_FLOATS,
                                                  on.spec.largest_allocation_bytes // 4)),), {})
    until_s = time.monotonic() + MOST_S
    for kind, step in kinds.items():
        if time.monotonic() > until_s:
            break
        bare = BareSteps(on, (step,), {}, compiled[step_instance(step)])
        bare.times()                                # compiles at the first launch, on some
        spent = []
        for _ in range(_RUNS):
            flush.enqueue()
            (launch,) = bare.times()
            spent.append(launch.end_ns - launch.start_ns)
        bare.close()
        yield kind, float(median(spent))
    flush.close()
