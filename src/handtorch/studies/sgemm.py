"""Study `sgemm`: C = A B in single precision, from the naive kernel to the best we have.

After "Enabling On-Device Smartphone GPU based Training: Lessons Learned" (2022), Fig. 3: square
matrices, 500 hot runs after warm-up with unchanged arguments, GFLOPS = 2 n^3 / mean time. Ours are
queued together and waited for once; the CPU's BLAS is called as often, in blocks that alternate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from handtorch.baseline.fair import (
    MOST_OTHERS,
    Plan,
    Timing,
    Work,
    interleave,
    middle_half,
    moment,
    share_of_others,
)
from handtorch.baseline.gemm import has_torch, numpy_product, torch_product
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.case import Array
from handtorch.kernels.gemm import Form, matmul_steps
from handtorch.kernels.gemm_specs import NAIVE, TILED, TILED_VECTOR, VECTOR
from handtorch.kernels.spec import Kernel
from handtorch.record import Published, Result, Verdict
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.studies.study import HOST, Setting
from handtorch.studies.unjudged import note

QUESTION = "Do tiling and vectors turn a phone GPU's SGEMM from a loss into a win?"
NAME = "sgemm"
SIZES = (*range(32, 513, 32), 1024)
QUICK_SIZES = (64, 256, 512, 1024)
JUDGED = (256, 512, 1024)
LAST_OF_PAPER = 512
SOURCE = ("Das et al., Enabling On-Device Smartphone GPU based Training: Lessons Learned, 2022, "
          "Fig. 3 and its text; drawn at the largest size of the figure")
PUBLISHED = (("OnePlus Nord GPU, naive", 5), ("OnePlus 6 GPU, naive", 10),
             ("OnePlus 8 Pro GPU, naive", 15), ("OnePlus Nord GPU, optimised", 25),
             ("OnePlus 6 GPU, optimised", 40), ("OnePlus 8 Pro GPU, optimised", 70),
             ("OnePlus 6 CPU", 15), ("OnePlus 8 Pro CPU", 30))

# Every size of the paper has its 500 runs; 1024, which is ours, and the quick form what fits.
FULL = Plan(rounds=5, runs=500)
LARGE = Plan(rounds=5, runs=500, most_s=4.0)
QUICK = Plan(rounds=3, runs=500, block_s=0.030, most_s=0.030, refuse_s=0.5)
# What is judged, the chosen kernel against the CPU's BLAS, takes more and longer blocks.
DUEL = Plan(rounds=7, runs=500)
QUICK_DUEL = Plan(rounds=7)

Steps = Callable[[DeviceSpec, int], tuple[Step, ...]]
_A, _B, _C, _SCRATCH = range(4)


def _plain(kernel: Kernel, **macros: int) -> Steps:
    def steps(_: DeviceSpec, n: int) -> tuple[Step, ...]:
        values = [Value(i, (n, n)) for i in (_A, _B, _C)]
        return (kernel.step(values, {"M": n, "N": n, "K": n}, macros, flops=2 * n**3),)
    return steps


def _chosen(form: Form | None) -> Steps:
    def steps(spec: DeviceSpec, n: int) -> tuple[Step, ...]:
        a, b, c = (Value(i, (n, n)) for i in (_A, _B, _C))
        return matmul_steps(a, b, c, spec=spec, form=form,
                            new_value=lambda shape: Value(_SCRATCH, shape))
    return steps


LADDER: Mapping[str, Steps] = {
    "naive": _plain(NAIVE), "vector 2": _plain(VECTOR, V=2), "vector 4": _plain(VECTOR, V=4),
    "vector 8": _plain(VECTOR, V=8), "vector 16": _plain(VECTOR, V=16), "tiled": _plain(TILED),
    "tiled + vector": _plain(TILED_VECTOR), "register": _chosen("register"),
    "packed": _chosen("packed"),
}
CHOSEN, NUMPY, TORCH = "chosen", "NumPy", "torch"
COLUMNS = (*LADDER, CHOSEN, NUMPY, TORCH)
LEGEND = """\
GFLOPS, the median of several blocks; - was not timed. `chosen` is the kernel that a model gets at
this size, timed once more in turn with the CPU's BLAS (NumPy, torch), so not in the same moments as
the kernels left of it."""


@dataclass(frozen=True)
class Point:
    """One side at one size, in GFLOPS: each block's, and the device's own clock's."""

    name: str
    n: int
    rates: tuple[float, ...]
    runs: int
    on_device: tuple[float, ...] = ()
    unknown: str = ""                       # why there is no rate

    @property
    def rate(self) -> float | None:
        return median(self.rates) if self.rates else None


def run(at: Setting) -> str:
    """Measure every size, row by row; what was measured before an interruption is kept."""
    at.record.add(*(Published(study=NAME, name="rate", subject=subject, x_name="n",
                              x_value=LAST_OF_PAPER, value=value, unit="GFLOPS", source=SOURCE)
                    for subject, value in PUBLISHED))
    on = OpenCLExecutor(at.device)
    points: list[Point] = []
    begin = moment()
    for n in QUICK_SIZES if at.quick else SIZES:
        at.progress(f"{NAME}: n = {n}")
        new = _size(on, n, at.quick)
        points += new
        at.record.add(*(_result(p, at.place) for p in new),
                      *(_device_result(p, at.place) for p in new if p.on_device),
                      *_ratio(new, n))
        at.record.flush()
    others = share_of_others(begin)
    verdict = judge(points, at.device, others)
    at.record.add(_others_result(others), verdict)
    doubt = f"Not judged: {verdict.holds_reason}.\n" if verdict.holds is None else ""
    return f"{table(points, others)}\n{verdict.question}\n{verdict.answer}\n{doubt}"


def _size(on: OpenCLExecutor, n: int, quick: bool) -> list[Point]:
    """All sides at one size: the ladder of kernels, then the chosen against the CPU's BLAS."""
    rng = np.random.default_rng(n)
    a, b = (rng.uniform(-1, 1, (n, n)).astype("f4") for _ in range(2))
    plan = QUICK if quick else LARGE if n > LAST_OF_PAPER else FULL
    duel = QUICK_DUEL if quick else DUEL
    kernels = {name: BareSteps(on, steps(on.spec, n), {_A: a, _B: b})
               for name, steps in {**LADDER, CHOSEN: _chosen(None)}.items()}
    try:
        times = interleave({name: _queued(kernels[name]) for name in LADDER}, plan)
        times |= interleave({CHOSEN: _queued(kernels[CHOSEN]), **_blas(a, b)}, duel)
        return [_point(name, n, times, kernels.get(name)) for name in COLUMNS]
    finally:
        for bare in kernels.values():
            bare.close()


def _queued(bare: BareSteps) -> Work:
    def work(count: int) -> None:
        bare.enqueue(count)
        bare.finish()
    return work


def _blas(a: Array, b: Array) -> dict[str, Work]:
    sides = {NUMPY: numpy_product(a, b)}
    return {**sides, TORCH: torch_product(a, b)} if has_torch() else sides


def _point(name: str, n: int, times: Mapping[str, Timing], bare: BareSteps | None) -> Point:
    if name not in times:
        return Point(name, n, (), 0, unknown="torch is not installed")
    timing = times[name]
    if timing.refused:
        return Point(name, n, (), 0, unknown=timing.refused)
    rates = tuple(2 * n**3 / s / 1e9 for s in timing.seconds)
    few = max(1, min(20, int(0.030 / timing.median_s)))
    return Point(name, n, rates, timing.runs, _on_device(bare, n, few) if bare else ())


def _on_device(bare: BareSteps, n: int, runs: int) -> tuple[float, ...]:
    """By the device's own clock, START to END, without what lies between launches."""
    times = bare.times(runs)
    each = len(times) // runs
    busy = [sum(t.end_ns - t.start_ns for t in times[i:i + each])
            for i in range(0, len(times), each)]
    return tuple(2 * n**3 / ns for ns in busy if ns > 0)


def _result(p: Point, place: str) -> Result:
    where = place if p.name in LADDER or p.name == CHOSEN else HOST
    if not p.rates:
        return Result(study=NAME, name="rate", subject=p.name, place=where, x_name="n",
                      x_value=p.n, value=None, value_reason=p.unknown, unit="GFLOPS",
                      better="higher", repeats=0, provenance="measured")
    one = len(p.rates) == 1
    return Result(study=NAME, name="rate", subject=p.name, place=where, x_name="n", x_value=p.n,
                  value=p.rate, unit="GFLOPS", better="higher", repeats=p.runs,
                  spread=None if p.runs == 1 else middle_half(p.rates), provenance="measured",
                  low=None if one else min(p.rates), high=None if one else max(p.rates),
                  bounds="" if one else f"slowest to fastest of {len(p.rates)} blocks")


def _device_result(p: Point, place: str) -> Result:
    return Result(study=NAME, name="rate by device clock", subject=p.name, place=place, x_name="n",
                  x_value=p.n, value=median(p.on_device), unit="GFLOPS", better="higher",
                  repeats=len(p.on_device), spread=middle_half(p.on_device), provenance="measured")


def ratios(points: list[Point], n: int) -> tuple[float, ...]:
    """The chosen kernel over the better BLAS, round by round; empty where one was not measured."""
    rates = {p.name: p.rates for p in points if p.n == n}
    blas = [rates[name] for name in (NUMPY, TORCH) if rates.get(name)]
    if not blas or not rates.get(CHOSEN):
        return ()
    better = max(blas, key=median)
    return tuple(ours / theirs for ours, theirs in zip(rates[CHOSEN], better, strict=True))


def _ratio(points: list[Point], n: int) -> tuple[Result, ...]:
    found = ratios(points, n) if n in JUDGED else ()
    if not found:
        return ()
    return (Result(study=NAME, name="chosen kernel / better BLAS", subject=CHOSEN, x_name="n",
                   x_value=n, value=median(found), unit="x", better="higher",
                   repeats=len(found), spread=middle_half(found), provenance="measured"),)


def _others_result(share: float | None) -> Result:
    """How quiet the machine was; no figure of a busy one is worth much."""
    return Result(study=NAME, name="cores used by other programs", subject="this machine",
                  value=None if share is None else 100 * share, unit="%", better="lower",
                  value_reason="the system does not tell" if share is None else "",
                  repeats=0 if share is None else 1, provenance="measured")


def judge(points: list[Point], device: FoundDevice, others: float | None = None) -> Verdict:
    """A win: the naive kernel loses to the better BLAS, and the chosen one does not."""
    n = LAST_OF_PAPER
    rate = {p.name: p.rate for p in points if p.n == n}
    found = ratios(points, n)
    blas = max(rate.get(NUMPY) or 0.0, rate.get(TORCH) or 0.0)
    paper = max((rate.get(name) or 0.0 for name in list(LADDER)[1:7]), default=0.0)
    naive, ours, ratio = rate.get("naive") or 0.0, rate.get(CHOSEN) or 0.0, median(found)
    spread = middle_half(found)
    shared = " (the same cores)" if device.spec.kind == "cpu" else ""
    answer = (f"On {device.label} at n = {n}: naive {naive:.3g}, with tiles or vectors "
              f"{paper:.3g}, with the chosen kernel {ours:.3g} GFLOPS; the CPU's BLAS{shared} "
              f"{blas:.3g}")
    if others is not None and others > MOST_OTHERS:
        doubt = f"other programs used {others:.0%} of this machine's cores meanwhile: run it again"
        answer += ". Nothing is said of which is faster."
    elif abs(ratio - 1) <= spread:
        doubt = "the ratio differs from 1 by no more than its spread"
        answer += (f". No difference can be told: the chosen kernel is {ratio:.2f} times as fast "
                   f"in the middle round, and the rounds spread by {spread:.2f}.")
    else:
        doubt, answer = "", f"{answer}, so that it is {ratio:.2f} times as fast as BLAS."
    holds = None if doubt else ratio > 1 and naive < blas
    return Verdict(study=NAME, question=QUESTION, answer=answer, holds=holds, holds_reason=doubt)


def table(points: list[Point], others: float | None = None) -> str:
    """Sizes down, sides across, GFLOPS; `-` where nothing was measured."""
    by = {(p.n, p.name): p.rate for p in points}
    sizes = list(dict.fromkeys(p.n for p in points))
    rows = [["n", *COLUMNS]]
    for n in sizes:
        rates = [by.get((n, name)) for name in COLUMNS]
        rows.append([str(n), *("-" if r is None else f"{r:.1f}" for r in rates)])
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, wide, strict=True)) for row in rows]
    return f"{LEGEND}\n" + "\n".join(lines) + "\n" + note(others)
