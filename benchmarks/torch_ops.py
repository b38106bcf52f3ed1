"""Are our times of torch's operations right? Against torch.profiler, on the same models.

    python benchmarks/torch_ops.py [--models A,B] [--rounds N] [--threads N] [--json]

Steps run plain, recorded by us and under torch.profiler, in an order drawn anew each round. Every
call of an operation has the best of its rounds, so that another program's time slice is not taken
for the operation; an operation's figure is the sum over its calls in a step, and one inside another
is part of that one, on both sides. The allocator keeps what is freed, so that no way of running
pays page faults for memory that another one gave back. Each that takes at least 1 ms a step must
agree within 10 %.

torch.profiler is also held against itself, odd rounds against even ones: as long as even that
differs by more than 5 % in a row, there are more rounds, up to four times as many; a row that still
does says that the machine was too busy to judge. What ours says of it does not matter there."""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from handtorch.baseline.torch_ops import TorchOps
from handtorch.zoo.registry import MODELS

BATCH = {"HarLSTM": 32, "ResNet50": 4, "DenseNet40_12": 4, "SqueezeNet1_1": 16, "Model4": 256,
         "CharCNN": 8, "DQN": 32, "Seq2Seq": 8}
LEAST_MS, WITHIN, OWN_WITHIN = 1.0, 0.10, 0.05
MOST = 4                                    # rounds, at most times
SPECIAL = 3                                 # rounds that are not counted: caches, and one is learnt
MOST_SPECIAL, FEW_FAULTS = 40, 300          # of those rounds, and pages in one that is calm
WAYS = ("plain", "ours", "profiler")


@dataclass(frozen=True)
class Agreement:
    """One operation of one model: ms a step by ours and by torch.profiler."""

    model: str
    op: str
    calls: int
    ours_ms: float
    profiler_ms: float
    own: float                              # torch.profiler's odd rounds over its even ones

    @property
    def ratio(self) -> float:
        return self.ours_ms / self.profiler_ms

    @property
    def verdict(self) -> str:
        if abs(self.own - 1) > OWN_WITHIN:
            return "not judged"
        return "agrees" if abs(self.ratio - 1) <= WITHIN else "DIFFERS"


@dataclass(frozen=True)
class Compared:
    """One model: its operations of at least 1 ms, and what a step takes each way, at best.

    The plain step is the third witness: what a step takes more when it is watched, an operation
    can have been measured too long by, and no more."""

    model: str
    rounds: int
    ops: int                                # operations of a step, whatever they take
    plain_ms: float
    ours_ms: float
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
        self.wall_ms: dict[str, list[float]] = {way: [] for way in WAYS}
        self.ours, self.profiler = list[Calls](), list[Calls]()

    def settle(self, order: random.Random) -> None:
        """Rounds that do not count, until memory is where it stays: while a step still gets pages
        from the kernel, whichever operation touches them first takes longer."""
        calm = 0
        for _ in range(MOST_SPECIAL):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            self.round(order)
            came = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            calm = calm + 1 if came < FEW_FAULTS else 0
            if calm >= SPECIAL:
                break
        for seen in (self.ours, self.profiler, *self.wall_ms.values()):
            seen.clear()

    def round(self, order: random.Random) -> None:
        for way in order.sample(WAYS, len(WAYS)):
            getattr(self, f"_{way}")()

    def _timed(self, way: str) -> None:
        start = time.perf_counter()
        self._step(*self._batch)
        self.wall_ms[way].append(1000 * (time.perf_counter() - start))

    def _plain(self) -> None:
        self._timed("plain")

    def _ours(self) -> None:
        with self._ops.step():
            self._timed("ours")
        self.ours.append([(op.name, (op.end_ns - op.start_ns) / 1e6)
                          for op in self._ops.steps.pop().ops])

    def _profiler(self) -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self._timed("profiler")
        self.profiler.append(outermost(profile))


def compare(name: str, size: int, rounds: int) -> Compared:
    sides, order = Sides(name, size), random.Random(0)
    sides.settle(order)
    for done in range(1, MOST * rounds + 1):
        sides.round(order)
        if done % rounds == 0:
            rows = agreements(name, sides)
            if all(row.verdict != "not judged" for row in rows):
                break
    plain, ours, profiler = (min(sides.wall_ms[w]) for w in WAYS)
    return Compared(name, done, len(sides.ours[0]), plain, ours, profiler, rows)


def agreements(name: str, sides: Sides) -> tuple[Agreement, ...]:
    """What the rounds so far say of each operation, longest first."""
    ours, theirs = best(sides.ours), best(sides.profiler)
    odd, even = best(sides.profiler[::2]), best(sides.profiler[1::2])
    calls = Counter(op for op, _ in sides.ours[0])
    rows = [Agreement(name, op, calls[op], ours[op], ms, odd[op] / even[op])
            for op, ms in theirs.items() if ms >= LEAST_MS]
    return tuple(sorted(rows, key=lambda row: -row.profiler_ms))


def shown(found: Compared, say: Callable[[str], object] = print) -> None:
    def more(ms: float) -> str:
        each_us = 1000 * (ms - found.plain_ms) / found.ops
        return f"{ms / found.plain_ms:.2f}x ({each_us:+.1f} us an operation)"
    say(f"{found.model} b{BATCH[found.model]}: plain {found.plain_ms:.1f} ms, ours "
        f"{more(found.ours_ms)}, torch.profiler {more(found.profiler_ms)}; {found.ops} operations, "
        f"{found.rounds} rounds")
    for row in found.rows:
        say(f"  {row.op.removeprefix('aten::'):28} {row.calls:5} calls  {row.ours_ms:9.2f} ms, "
            f"torch.profiler {row.profiler_ms:9.2f} ms  {row.ratio:5.2f}  (itself {row.own:4.2f})  "
            f"{row.verdict}")


def keep_freed_memory() -> bool:
    """Whether malloc has from now on one heap that only grows; False where it is not glibc's.

    As it comes, it gives large blocks back to the kernel as it sees fit: of ResNet50's steps some
    have no page fault and some thousands, and the operations that get fresh pages take longer."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trim_threshold, mmap_threshold = -1, -3     # <malloc.h>
    return bool(mallopt(trim_threshold, 2**31 - 1) and mallopt(mmap_threshold, 32 << 20))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(BATCH))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1,
                        help="1 by default: a pool of threads measures who else computes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(given)
    torch.set_num_threads(args.threads)
    keep_freed_memory()
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
