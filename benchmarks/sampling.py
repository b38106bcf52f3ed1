"""What sampling at 10 ms costs a training step, in percent of its time.

    python benchmarks/sampling.py [--model NAME] [--device NAME] [--batch N] [--pairs N] [--json]

One sampler runs all the time and is stopped (SIGSTOP) and let go on (SIGCONT), so that its start is
not part of it. What is timed are units of some steps, at least 20 ms long: short enough that one
which another program disturbed does no harm to a median, and too long to miss a reading. They come
in blocks with and without sampling, in an order drawn each time; shown is the median of the ratios
of units that stand at the same place in their blocks, and a 95 % interval for it (as if units were
independent). The step waits for every loss. A second row compares units that were both without
sampling: what the machine's noise alone gives."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import torch

import handtorch as ht
from handtorch.baseline.fair import MOST_OTHERS, moment, share_of_others
from handtorch.errors import HandTorchError
from handtorch.profile.audit import Clock, Overhead, compared
from handtorch.profile.sampling import Sampling
from handtorch.runtime.opencl.discover import choose
from handtorch.zoo.registry import MODELS

TARGET_PERCENT = 1.0
UNIT_NS = 20_000_000                            # two readings fall into each, on average
UNITS = 5                                       # in a block
OWN_S = 3.0                                     # for what the sampler itself takes
FIND = "handtorch.meters.search:find_all"


def block_ns(step: Callable[[], object], units: int, count: int,
             clock: Clock = time.monotonic_ns) -> list[int]:
    """The time of each of so many units of `count` steps, after one that is not timed."""
    spent = []
    for _ in range(1 + units):
        start_ns = clock()
        for _ in range(count):
            step()
        spent.append(clock() - start_ns)
    return spent[1:]


def measure(step: Callable[[], object], switch: Callable[[bool], None], pairs: int,
            clock: Clock = time.monotonic_ns) -> tuple[Overhead, Overhead, float]:
    """Its cost; the same of nothing; and the ms of a step without it."""
    switch(False)
    count = max(1, ceil(UNIT_NS / min(block_ns(step, 5, 1, clock))))
    draw = random.Random(0)
    spent: dict[str, list[int]] = {"on": [], "off": [], "off again": []}
    for _ in range(ceil(pairs / UNITS)):
        for kind in draw.sample(list(spent), len(spent)):
            switch(kind == "on")
            spent[kind] += block_ns(step, UNITS, count, clock)
    middle_ms = median(spent["off"]) / count / 1e6
    return (compared(spent["on"], spent["off"]), compared(spent["off again"], spent["off"]),
            middle_ms)


def made_step(model: str, batch: int, device: str) -> Callable[[], object]:
    torch.manual_seed(0)
    entry = MODELS[model]
    made, data = entry.make(), entry.batch(batch)
    step = ht.train_step(made, entry.loss, entry.optimizers(made)[0], example=data, device=device)
    return lambda: float(step(*data))


def line(name: str, cost: Overhead) -> str:
    bounds = ("too few pairs for an interval" if cost.low is None or cost.high is None
              else f"{cost.low:+.2f} to {cost.high:+.2f}")
    return (f"{name:<12} {cost.percent:+.2f} %  ({bounds}; middle half {cost.quartiles:.2f}; "
            f"{cost.pairs} pairs)")


def judged(cost: Overhead, others: float | None) -> bool | None:
    """Whether the target is met; beside other busy programs that cannot be said."""
    if others is None or others > MOST_OTHERS:
        return None
    return cost.percent <= TARGET_PERCENT


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    step = made_step(args.model, args.batch, args.device)
    for _ in range(3):
        step()                                  # every thread is there before they are looked for
    since = moment()
    with Sampling(folder, find=args.find) as sampling:
        if not sampling.ready(10) or sampling.sampler_pid is None:
            raise HandTorchError("sampling did not start",
                                 why="; ".join(sampling.readings().troubles.lines()))
        pid = sampling.sampler_pid
        cost, noise, step_ms = measure(
            step, lambda on: os.kill(pid, signal.SIGCONT if on else signal.SIGSTOP), args.pairs)
        os.kill(pid, signal.SIGCONT)
        block_ns(step, 1, ceil(OWN_S / 10 / step_ms * 1e3))     # until it has caught up
        before = sampling.readings().troubles
        began = time.monotonic()
        block_ns(step, 1, ceil(OWN_S / 2 / step_ms * 1e3))
        seconds, after = time.monotonic() - began, sampling.readings()
    others = share_of_others(since)
    fast, was = after.troubles.deadlines[0], before.deadlines[0]
    assert after.troubles.cpu_s is not None and before.cpu_s is not None
    return {"model": args.model, "batch": args.batch, "device": args.device, "step_ms": step_ms,
            "signals": len(after.series), "cost": asdict(cost), "noise": asdict(noise),
            "met": judged(cost, others), "share_of_others": others,
            "own_core_share": (after.troubles.cpu_s - before.cpu_s) / seconds,
            "due": fast.due - was.due, "missed": fast.missed - was.missed,
            "slowed": [factor for _, factor in after.troubles.slowed]}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What sampling at 10 ms costs a step.")
    parser.add_argument("--model", choices=MODELS, default="HarLSTM")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--find", default=FIND, help="module:function that finds the sensors")
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args(argv)
    try:
        args.device = choose(args.device).label
        with tempfile.TemporaryDirectory() as folder:
            got = run(args, Path(folder))
    except HandTorchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if args.json:
        print(json.dumps(got))
    else:
        print(f"{got['model']}, batch {got['batch']}, {got['device']}: {got['step_ms']:.2f} ms a "
              f"step, {got['signals']} signals every 10 ms")
        print(line("sampling", Overhead(**got["cost"])))
        print(line("noise", Overhead(**got["noise"])))
        print(f"the sampler took {100 * got['own_core_share']:.2f} % of a core and missed "
              f"{got['missed']} of {got['due']} deadlines; it slowed down by "
              f"{got['slowed'] or 'nothing'}")
        others = got["share_of_others"]
        used = "unknown" if others is None else f"{100 * others:.0f} %"
        verdict = {True: "met", False: "MISSED", None: "not judged"}[got["met"]]
        print(f"others, the sampler among them, used {used} of this machine; target "
              f"{TARGET_PERCENT:g} %: {verdict}")
    return 1 if got["met"] is False else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
