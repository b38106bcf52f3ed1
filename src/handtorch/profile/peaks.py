"""What the device does at best, measured now: arithmetic, memory, and one launch after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from handtorch.graph.step import Step
from handtorch.kernels.roofline import copy_step, fma_step
from handtorch.record import Result
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext

_RUNS = 7
_LEAST_NS = 100_000_000                 # of launches: a core may be lent to others for some ms
_LOOPS = 4000
_COPIED_FLOATS = 16 << 20               # 64 MB read and 64 written: out of a CPU's cache
_TINY = 64
_LAUNCHES = 50


def peak_rows(on: OpenCLContext, study: str, place: str) -> Iterator[Result]:
    """Three figures under the device's name: the most FLOP/s and bytes/s (read and written) of many
    launches, and nanoseconds from the start of one tiny launch to the start of the next, queued
    together."""
    fma = fma_step(on.spec, _LOOPS)
    copied = min(_COPIED_FLOATS, on.spec.largest_allocation_bytes // 8)
    copy = copy_step(on.spec, copied)
    yield _row(on, study, place, "arithmetic peak", "FLOP/s", "higher",
               [1e9 * fma.flops / ns for ns in _times(on, fma)], best=max)
    yield _row(on, study, place, "memory peak", "B/s", "higher",
               [1e9 * copy.bytes / ns for ns in _times(on, copy)], best=max)
    bare = BareSteps(on, [copy_step(on.spec, _TINY, 2 * i) for i in range(_LAUNCHES)], {})
    bare.times()
    apart = []
    for _ in range(_RUNS):
        starts = [t.start_ns for t in bare.times()]
        apart.append((starts[-1] - starts[0]) / (_LAUNCHES - 1))
    bare.close()
    yield _row(on, study, place, "launch time", "ns", "lower", apart)


def _times(on: OpenCLContext, step: Step) -> list[int]:
    bare = BareSteps(on, (step,), {})
    bare.times(2)                       # compiles, and touches the memory
    spent: list[int] = []
    while sum(spent) < _LEAST_NS:
        spent += [max(t.end_ns - t.start_ns, 1) for t in bare.times(_RUNS)]
    bare.close()
    return spent


def _row(on: OpenCLContext, study: str, place: str, name: str, unit: str, better: str,
         values: Sequence[float], best: Callable[[Sequence[float]], float] = median) -> Result:
    ordered = sorted(values)
    spread = ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]
    return Result(study=study, name=name, subject=on.spec.name, place=place,
                  value=best(values), unit=unit, repeats=len(values), spread=spread,
                  better="higher" if better == "higher" else "lower", provenance="measured")
