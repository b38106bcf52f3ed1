"""The time of each kind of launch of a program, taken one by one on the device.

It needs the memory of one launch, not of the program. Each run finds the caches as a step would,
full of something else: a copy of that size goes before it."""

from __future__ import annotations

import time
from statistics import median

from handtorch.graph.step import Step
from handtorch.kernels.render import step_instance
from handtorch.kernels.roofline import copy_step
from handtorch.plan.cost import Shape, shape_of
from handtorch.program import Program
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.prebuild import compile_steps

_RUNS = 3
_FLUSH_FLOATS = 8 << 20              # 32 MB read and 32 MB written: more than caches of our class
MOST_S = 60.0                        # of timing; kinds that are left have the roofline's time


def launch_times_ns(on: OpenCLContext, program: Program) -> dict[Shape, float]:
    """By kind of launch the median of three, the most frequent kinds first."""
    count: dict[Shape, int] = {}
    first: dict[Shape, Step] = {}
    for step in program.steps:
        count[shape_of(step)] = count.get(shape_of(step), 0) + 1
        first.setdefault(shape_of(step), step)
    compiled = compile_steps(on, program.steps, program.plan)
    flush = BareSteps(on, (copy_step(on.spec, min(_FLUSH_FLOATS,
                                                  on.spec.largest_allocation_bytes // 4)),), {})
    until_s, taken = time.monotonic() + MOST_S, dict[Shape, float]()
    for kind in sorted(first, key=lambda k: (-count[k], k.kernel, k.sizes)):
        if time.monotonic() > until_s:
            break
        step = first[kind]
        bare = BareSteps(on, (step,), {}, compiled[step_instance(step)])
        bare.times()                                # compiles at the first launch, on some
        spent = []
        for _ in range(_RUNS):
            flush.enqueue()
            (launch,) = bare.times()
            spent.append(launch.end_ns - launch.start_ns)
        taken[kind] = float(median(spent))
        bare.close()
    flush.close()
    return taken
