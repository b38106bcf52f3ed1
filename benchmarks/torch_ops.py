"""Are our times of torch's operations right? Against torch.profiler, on the same models.

    python benchmarks/torch_ops.py [--models A,B] [--rounds N] [--threads N] [--json]

Steps run plain, under our hook and under torch.profiler, in an order drawn anew each round. Every
call of an operation has the best of its rounds, so that another program's time slice is not taken
for the operation; an operation's figure is the sum over its calls in a step, and one inside another
is part of that one, on both sides. Each that takes at least 1 ms a step must agree within 10 %.
torch.profiler is also held against itself, odd rounds against even ones: where even that differs by
more than 5 %, the machine was too busy to judge, and the row says so."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

from handtorch.baseline.torch_ops import TorchOps
from handtorch.zoo.registry import MODELS

BATCH = {"HarLSTM": 32, "ResNet50": 4, "DenseNet40_12": 4, "SqueezeNet1_1": 16, "Model4": 256,
         "CharCNN": 8, "DQN": 32, "Seq2Seq": 8}
LEAST_MS, WITHIN, OWN_WITHIN = 1.0, 0.10, 0.05


@dataclass(frozen=True)
class Agreement:
    """One operation of one model: ms a step by our hook and by torch.profiler."""

    model: str
    op: str
    calls: int
    hook_ms: float
    profiler_ms: float
    own: float                              # torch.profiler's odd rounds over its even ones

    @property
    def ratio(self) -> float:
        return self.hook_ms / self.profiler_ms

    @property
    def verdict(self) -> str:
        if abs(self.own - 1) > OWN_WITHIN:
            return "not judged"
        return "agrees" if abs(self.ratio - 1) <= WITHIN else "DIFFERS"


@dataclass(frozen=True)
class Compared:
    """One model: its operations of at least 1 ms, and what a step takes each way."""

    model: str
    plain_ms: float
    hook_ms: float
    profiler_ms: float
    rows: tuple[Agreement, ...]


Calls = list[tuple[str, float]]             # operation, ms; in the order in which they ran


def outermost(profile: Any) -> Calls:
    """The `aten::` events that are inside no other."""
    found = []
    for event in profile.events():
        above = event.cpu_parent
        while above is not None and not above.name.startswith("aten::"):
            above = above.cpu_parent
        if event.name.startswith("aten::") and above is None:
            found.append((event.time_range.start, event.name, event.time_range.end))
    return [(name, (end - start) / 1000) for start, name, end in sorted(found)]


def best(rounds: Sequence[Calls]) -> Counter[str]:
    """By operation the sum over its calls, each the best of all rounds."""
    names = [name for name, _ in rounds[0]]
    assert all([name for name, _ in r] == names for r in rounds), "steps that are not the same"
    spent = Counter[str]()
    for name, times in zip(names, zip(*([ms for _, ms in r] for r in rounds), strict=True),
                           strict=True):
        spent[name] += min(times)
    return spent


class Sides:
    """The three ways to run one step, and what they saw."""

    def __init__(self, name: str, size: int) -> None:
        entry = MODELS[name]
        torch.manual_seed(0)
        model = entry.make()
        self._step, self._batch = entry.step(model, entry.optimizers(model)), entry.batch(size)
        self._ops = TorchOps()
        self.wall_ms: dict[str, list[float]] = {"plain": [], "hook": [], "profiler": []}
        self.hook, self.profiler = list[Calls](), list[Calls]()

    def run(self, way: str) -> None:
        getattr(self, f"_{way}")()

    def _timed(self, way: str) -> None:
        start = time.perf_counter()
        self._step(*self._batch)
        self.wall_ms[way].append(1000 * (time.perf_counter() - start))

    def _plain(self) -> None:
        self._timed("plain")

    def _hook(self) -> None:
        with self._ops.step():
            self._timed("hook")
        self.hook.append([(op.name, (op.end_ns - op.start_ns) / 1e6)
                          for op in self._ops.steps.pop().ops])

    def _profiler(self) -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self._timed("profiler")
        self.profiler.append(outermost(profile))


def compare(name: str, size: int, rounds: int) -> Compared:
    sides, order = Sides(name, size), random.Random(0)
    for number in range(rounds + 2):
        for way in order.sample(["plain", "hook", "profiler"], 3):
            sides.run(way)
        if number == 1:                     # warmed up; the hook's first two steps are special
            sides.hook.clear()
            sides.profiler.clear()
    ours, theirs = best(sides.hook), best(sides.profiler)
    odd, even = best(sides.profiler[::2]), best(sides.profiler[1::2])
    calls = Counter(op for op, _ in sides.hook[0])
    rows = [Agreement(name, op, calls[op], ours[op], ms, odd[op] / even[op])
            for op, ms in theirs.items() if ms >= LEAST_MS]
    rows.sort(key=lambda row: -row.profiler_ms)
    plain, hook, profiler = (median(sides.wall_ms[w][2:]) for w in ("plain", "hook", "profiler"))
    return Compared(name, plain, hook, profiler, tuple(rows))


def shown(found: Compared, say: Callable[[str], object] = print) -> None:
    say(f"{found.model} b{BATCH[found.model]}: plain {found.plain_ms:.1f} ms, hook "
        f"{found.hook_ms / found.plain_ms:.2f}x, torch.profiler "
        f"{found.profiler_ms / found.plain_ms:.2f}x")
    for row in found.rows:
        say(f"  {row.op.removeprefix('aten::'):28} {row.calls:5} calls  {row.hook_ms:9.2f} ms, "
            f"torch.profiler {row.profiler_ms:9.2f} ms  {row.ratio:5.2f}  (itself {row.own:4.2f})  "
            f"{row.verdict}")


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(BATCH))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1,
                        help="1 by default: a pool of threads measures who else computes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(given)
    torch.set_num_threads(args.threads)
    found = []
    for name in args.models.split(","):
        found.append(compare(name, BATCH[name], args.rounds))
        if not args.json:
            shown(found[-1])
    rows = [row for model in found for row in model.rows]
    verdicts = Counter(row.verdict for row in rows)
    if args.json:
        print(json.dumps({"threads": args.threads, "rounds": args.rounds, "models": [
            asdict(f) for f in found], "verdicts": verdicts}))
    else:
        print(f"{verdicts['agrees']} of {len(rows)} operations of 1 ms and more agree within 10 %, "
              f"{verdicts['DIFFERS']} differ, {verdicts['not judged']} could not be judged")
    return 1 if verdicts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
