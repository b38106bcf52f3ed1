"""Steps in which every launch is waited for, on a real device: what `check` compares."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import quantiles

from handtorch.kernels.roofline import copy_step
from handtorch.meters.procfs import used_seconds
from handtorch.profile.check import Check, Spans, Wait, best, checked
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.resident import Alone, OpenCLResident
from handtorch.runtime.opencl.sync import read_times
from handtorch.runtime.recorder import Pass, now_ns

_TINY, _WAITS = 64, 200
_COLD = 2.0                     # times a wait's cost that it may cost more


def check(resident: OpenCLResident, on: OpenCLContext, names: tuple[str, str],
          queued: Sequence[Pass], step: Callable[[], object], steps: int) -> Check:
    """Run `steps` steps one launch at a time; `queued` are passes of a profile, with times.

    `names` are subject and place. These steps train, too, and are no part of any profile."""
    wait = waiting(on)
    began = now_ns(), used_seconds(), time.process_time()
    kept: list[Alone] = []
    resident.finish()
    resident.alone = kept
    try:
        for _ in range(steps):
            step()
    finally:
        resident.alone = None
    resident.finish()
    others = _others_cores(*began)
    times = read_times(on, [launch.event for launch in kept])
    passes: list[list[int]] = []
    for i, launch in enumerate(kept):
        if launch.number == 0:
            passes.append([])
        passes[-1].append(i)
    events = best([[(int(times[i, 2]), int(times[i, 3])) for i in p] for p in passes])
    windows = best([[(kept[i].before_ns, kept[i].after_ns) for i in p] for p in passes])
    beside = best([_launches(p) for p in queued])
    program = resident.program
    spans = [Spans(step.kernel, q, a, w) for step, q, a, w in
             zip(program.steps, beside, events, windows, strict=True) if w is not None]
    return checked(*names, len(passes), spans, wait, program.spec.timer_ns or 1,
                   others)


def waiting(on: OpenCLContext) -> Wait:
    """By the host's clock alone: a launch that does next to nothing, on the profiling queue."""
    bare = BareSteps(on, [copy_step(on.spec, _TINY)], {})
    bare.times()
    spent = []
    for _ in range(_WAITS):
        before_ns = now_ns()
        bare.enqueue_timed().wait()
        spent.append(now_ns() - before_ns)
    bare.close()
    low, middle, _ = quantiles(spent, n=4)
    # Launches are held against their best step, so a wait costs what it costs at best or a little
    # more. Between other kernels it costs more than here, again and again the same: on Intel's
    # runtime up to twice as much more for the first launch of a step.
    best_ns = (min(spent) + low) / 2
    return Wait(best_ns, max(middle - min(spent), _COLD * best_ns))


def _others_cores(began_ns: int, busy_s: float | str, own_s: float) -> float | None:
    """Cores that other programs have used since; None where the machine does not tell."""
    now_s = used_seconds()
    if isinstance(busy_s, str) or isinstance(now_s, str):
        return None
    spent = now_s - busy_s - (time.process_time() - own_s)
    return max(0.0, spent / max((now_ns() - began_ns) / 1e9, 1e-3))


def _launches(seen: Pass) -> list[tuple[int, int]]:
    assert seen.times is not None, "the recorder was not stopped"
    rows = seen.times[seen.unmaps:seen.unmaps + seen.launches]
    return [(int(start), int(end)) for _, _, start, end in rows]
