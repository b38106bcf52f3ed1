"""What this device can do at best: launches, staging, arithmetic, memory.

    python benchmarks/roofline.py [--device NAME] [--json]

Later figures are measured against these. Launch cost is the host's time per launch of a program of
100 preset kernels; staging is 16 MB from the host; arithmetic is multiply-adds in registers; memory
is a copy, bytes read and written, of 4 MB (in a CPU's cache) and of 256 MB (out of it)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from handtorch.baseline.fair import middle_half, settle, timed
from handtorch.errors import HandTorchError
from handtorch.graph.step import Step
from handtorch.kernels.roofline import copy_step, fma_step
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.runtime.opencl.probe import staging

LAUNCHES = 100
TARGET_US = 5.0                             # host time per launch that replay must not exceed
MB = 1_000_000


@dataclass(frozen=True)
class Figure:
    """The median of `repeats` and the range of their middle half."""

    name: str
    value: float
    unit: str
    spread: float
    repeats: int


def _figure(name: str, values: Sequence[float], unit: str) -> Figure:
    return Figure(name, median(values), unit, middle_half(values), len(values))


def launches(on: OpenCLExecutor, repeats: int = 30) -> list[Figure]:
    """A program of 100 tiny preset kernels, replayed: queued only, and waited for at its end."""
    bare = BareSteps(on, [copy_step(on.spec, 64, 2 * i) for i in range(LAUNCHES)], {})
    queued: list[float] = []
    waited: list[float] = []

    def replay(_: int) -> None:
        queued.append(timed(bare.enqueue, 1))
        bare.finish()

    settle()
    for _ in range(repeats + 3):
        waited.append(timed(replay, 1))
    bare.close()
    us = 1e6 / LAUNCHES
    return [_figure("launch, queued", [us * s for s in queued[3:]], "us"),
            _figure("launch, with the wait at the end", [us * s for s in waited[3:]], "us")]


def stage(on: OpenCLExecutor) -> list[Figure]:
    times = staging(on, 16 * MB)
    ways = {"staging 16 MB, copy": times.copy_s, "staging 16 MB, map and fill": times.map_s}
    rates = [_figure(name, [times.nbytes / s / 1e9 for s in seconds], "GB/s")
             for name, seconds in ways.items()]
    return [*rates, _figure("map and unmap 16 MB, nothing written",
                            [1e6 * s for s in times.map_only_s], "us")]


def rate(on: OpenCLExecutor, step: Step, amount: float, rounds: int = 7) -> list[float]:
    """`amount` per launch and nanosecond, in blocks of at least 60 ms."""
    bare = BareSteps(on, (step,), {})

    def work(count: int) -> None:
        bare.enqueue(count)
        bare.finish()

    settle()
    work(2)
    count = max(1, round(0.060 / timed(work, 1)))
    values = [amount * count / timed(work, count) / 1e9 for _ in range(rounds)]
    bare.close()
    return values


def peaks(on: OpenCLExecutor) -> list[Figure]:
    fma = fma_step(on.spec, 20_000)
    figures = [_figure("peak multiply-add", rate(on, fma, fma.flops), "GFLOPS")]
    for size in (4 * MB, 256 * MB):
        if size > on.spec.largest_allocation_bytes:
            continue
        step = copy_step(on.spec, size // 4)
        figures.append(_figure(f"copy {size // MB} MB", rate(on, step, step.bytes), "GB/s"))
    return figures


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Roofline of an OpenCL device.")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args(argv)
    try:
        on = OpenCLExecutor(choose(args.device))
    except HandTorchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    parts: tuple[Callable[[OpenCLExecutor], list[Figure]], ...] = (launches, stage, peaks)
    figures = [figure for part in parts for figure in part(on)]
    met = figures[0].value <= TARGET_US
    if args.json:
        print(json.dumps({"device": on.found.label, "name": on.spec.name,
                          "launch_target_us": TARGET_US, "launch_target_met": met,
                          "figures": [asdict(f) for f in figures]}))
    else:
        print(f"{on.found.label}: {on.spec.name}")
        for f in figures:
            print(f"  {f.name:<38} {f.value:>9.4g} {f.unit:<6} spread {f.spread:.2g} "
                  f"of {f.repeats}")
        print(f"  target: a queued launch in {TARGET_US:g} us: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
