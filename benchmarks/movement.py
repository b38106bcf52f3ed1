"""What share of a training step goes into moving data, for every model of the zoo.

    python benchmarks/movement.py [--models NAME ...] [--full] [--device NAME] [--rounds N] [--json]

Moving data is: the host's copy of the batch into the staging ring and of the losses out of it (time
of the copying thread on its core), and the device's map and unmap commands (its own clock). `share`
is their sum over the wall time of a step, the steps queued one behind another.

The host copies while the device computes, so the share is an upper bound, reached by who waits for
every loss. `lost` is what the device does without when steps are queued ahead: its commands, and if
it is the host's own processor, the copying core's part of all its cores' time. Given are torch
tensors, as a loader stacks them; a device that computes in the host's memory reads them where they
lie, since torch keeps them as they are. `lending us` is what the host takes to make sure of that
and to point kernels there: the launch costs more, but nothing is moved, so it stands apart.

`copied` is the share of the same call given NumPy arrays that their owner may write to, `lent`
given them by `ht.lend`, `read-only` given arrays that nobody can change, as from a data set mapped
from a file; `in place` is the share when the batch is made in the ring (`step.stage()`).

Each figure is taken round by round; shown are medians and the middle half. First come the two whose
share must not exceed 2 %, in full size; then every model in its small form, whose step is short."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Any

import numpy as np

import handtorch as ht
from handtorch.baseline.fair import middle_half, moment, settle, share_of_others, timed
from handtorch.errors import HandTorchError
from handtorch.runtime.opencl.discover import choose, find_devices
from handtorch.zoo.entry import Batch
from handtorch.zoo.registry import MODELS

LIMIT = 0.02
BLOCK_S = 0.150
BATCHES = 4                                 # other memory each time, as from a loader
Submit = Callable[[int, bool], Any]         # the step's number, timed -> its ticket


@dataclass(frozen=True)
class Case:
    model: str
    batch: int
    small: bool
    limited: bool = False                   # the share must not exceed LIMIT

    @property
    def title(self) -> str:
        return f"{self.model}{' small' if self.small else ''}, batch {self.batch}"


FULL = (Case("Model4", 512, False, True), Case("ResNet50", 16, False, True))
CASES = (*FULL, *(Case(name, entry.small_batch, True) for name, entry in MODELS.items()))


@dataclass(frozen=True)
class Figure:
    """The median of the rounds and the range of their middle half."""

    value: float
    spread: float


@dataclass(frozen=True)
class Row:
    """Times are per step."""

    case: Case
    device: str
    crossing_bytes: int
    step_us: Figure
    copy_us: Figure
    commands_us: Figure
    share: Figure
    lost: Figure
    lending_us: Figure
    copied: Figure
    lent: Figure
    read_only: Figure
    in_place: Figure
    steps: int                              # timed ones in all, of one way

    @property
    def met(self) -> bool:
        """By the ordinary call, of tensors."""
        return not self.case.limited or self.share.value <= LIMIT


@dataclass(frozen=True)
class Block:
    """Means over the steps of one block."""

    step_ns: float
    copy_ns: float
    commands_ns: float
    lend_ns: float

    def share(self, of_copy: float = 1.0) -> float:
        """Commands and the given part of the copies, over the step."""
        return (of_copy * self.copy_ns + self.commands_ns) / self.step_ns


class Way:
    """One way to make steps: `submit(number, timed)` queues one and gives its ticket."""

    def __init__(self, submit: Submit, finish: Callable[[], None]) -> None:
        self._submit, self._finish = submit, finish
        settle()
        self._work(3)
        self.count = max(2, ceil(BLOCK_S / timed(self._work, 1)))

    def _work(self, count: int) -> None:
        for i in range(count):
            self._submit(i, False)
        self._finish()

    def block(self) -> Block:
        """The profiling queue is kept out of the wall time: some drivers run launches alone on
        it. So the same steps are made twice."""
        if self.count > 2:                  # beside a step that long, waking up costs nothing
            self._work(2)
        step_s = timed(self._work, self.count) / self.count
        moved = [t.movement() for t in [self._submit(i, True) for i in range(self.count)]]
        return Block(1e9 * step_s, *(sum(each) / self.count for each in zip(*(
            (m.copy_ns, m.commands_ns, m.lend_ns) for m in moved), strict=True)))


def compiled(case: Case, device: str, example: Batch) -> Any:
    """The step a user would make of the model."""
    entry = MODELS[case.model]
    model = entry.make(small=case.small)
    optimizers = entry.optimizers(model)
    if entry.special_step is None:
        return ht.train_step(model, entry.loss, optimizers[0], example=example, device=device)
    return ht.train_step(entry.step(model, optimizers), models=[model], optimizers=optimizers,
                         example=example, device=device)


def settled(data: Sequence[Batch]) -> list[list[Any]]:
    """The batches as parts of one data set that nobody can change."""
    whole = [np.concatenate([x.numpy() for x in part]) for part in zip(*data, strict=True)]
    for array in whole:
        array.flags.writeable = False
    rows = [[len(x) for x in batch] for batch in data]
    return [[array[i * n:(i + 1) * n] for array, n in zip(whole, rows[i], strict=True)]
            for i in range(len(data))]


def ways(step: Any, data: Sequence[Batch]) -> tuple[Way, ...]:
    """As a user calls it, with tensors; with arrays; with lent arrays; with read-only arrays; and
    with the batch already in the ring."""
    resident, fixed = step.resident, settled(data)
    arrays = [[x.numpy() for x in batch] for batch in data]
    stacked = [[x.clone() for x in batch] for batch in data]    # NumPy never saw their memory

    def ticket(given: Any) -> Any:
        first = next(iter(given.values())) if isinstance(given, dict) else given
        return (first[0] if isinstance(first, tuple) else first).ticket

    def called(number: int, timed: bool) -> Any:
        return ticket(step(*stacked[number % BATCHES], timed=timed))

    def copied(number: int, timed: bool) -> Any:
        return ticket(step(*arrays[number % BATCHES], timed=timed))

    def lent(number: int, timed: bool) -> Any:
        return ticket(step(*map(ht.lend, arrays[number % BATCHES]), timed=timed))

    def read_only(number: int, timed: bool) -> Any:
        return ticket(step(*fixed[number % BATCHES], timed=timed))

    def in_place(number: int, timed: bool) -> Any:
        staged = resident.stage()
        for into, made in zip(staged, arrays[number % BATCHES], strict=True):
            if into.dtype.kind != "f":      # any number takes as long as another, but not an index
                np.copyto(into, made, casting="same_kind")
        return ticket(step(*staged, timed=timed))

    return tuple(Way(way, resident.finish) for way in (called, copied, lent, read_only, in_place))


def measure(case: Case, device: str, rounds: int) -> Row:
    entry = MODELS[case.model]
    data = [entry.batch(case.batch, small=case.small, seed=i) for i in range(BATCHES)]
    step = compiled(case, device, data[0])
    made = ways(step, data)
    blocks = [[way.block() for way in made] for _ in range(rounds)]
    spec = choose(device).spec
    of_copy = 1 / spec.compute_units if spec.kind == "cpu" else 0.0
    step.close()

    def figure(way: int, of: Callable[[Block], float]) -> Figure:
        values = [of(blocks_of_round[way]) for blocks_of_round in blocks]
        return Figure(median(values), middle_half(values))

    return Row(case, device, step.program.bytes_crossing(),
               step_us=figure(0, lambda b: b.step_ns / 1e3),
               copy_us=figure(0, lambda b: b.copy_ns / 1e3),
               commands_us=figure(0, lambda b: b.commands_ns / 1e3),
               share=figure(0, Block.share), lost=figure(0, lambda b: b.share(of_copy)),
               lending_us=figure(0, lambda b: b.lend_ns / 1e3), copied=figure(1, Block.share),
               lent=figure(2, Block.share), read_only=figure(3, Block.share),
               in_place=figure(4, Block.share),
               steps=made[0].count * rounds)


HEAD = (f"{'model':<31} {'device':<6} {'bytes':>9} {'step us':>9} {'copy us':>7} "
        f"{'commands us':>11} {'share %':>14} {'lost %':>7} {'lending us':>10} {'copied %':>8} "
        f"{'lent %':>7} {'read-only %':>11} {'in place %':>10}")


def text(row: Row) -> str:
    verdict = "" if not row.case.limited else "  met" if row.met else "  MISSED"
    share = f"{100 * row.share.value:.3f} ±{50 * row.share.spread:.3f}"
    return (f"{row.case.title:<31} {row.device:<6} {row.crossing_bytes:>9,} "
            f"{row.step_us.value:>9,.0f} {row.copy_us.value:>7,.1f} "
            f"{row.commands_us.value:>11,.1f} {share:>14} {100 * row.lost.value:>7.3f} "
            f"{row.lending_us.value:>10,.1f} {100 * row.copied.value:>8.3f} "
            f"{100 * row.lent.value:>7.3f} {100 * row.read_only.value:>11.3f} "
            f"{100 * row.in_place.value:>10.3f}{verdict}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="The share of data movement in a training step.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS),
                        metavar="NAME", help=f"all if not named: {', '.join(MODELS)}")
    parser.add_argument("--full", action="store_true", help="only the full sizes")
    parser.add_argument("--device", metavar="NAME", help="all there are if not named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args(argv)
    try:
        devices = [choose(args.device).label] if args.device else [
            d.label for d in find_devices() if d.facts.by_default]
    except HandTorchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    cases = [c for c in (FULL if args.full else CASES) if c.model in args.models]
    since, rows = moment(), []
    if not args.json:
        print(HEAD, flush=True)
    for case in cases:
        for device in devices:
            rows.append(measure(case, device, args.rounds))
            if not args.json:
                print(text(rows[-1]), flush=True)
    others, limited = share_of_others(since), [row.met for row in rows if row.case.limited]
    met = all(limited) if limited else None
    if args.json:
        print(json.dumps({"limit": LIMIT, "met": met, "share_of_others": others,
                          "rows": [asdict(row) for row in rows]}))
    else:
        used = "unknown" if others is None else f"{100 * others:.0f} %"
        verdict = "not measured" if met is None else "met" if met else "MISSED"
        print(f"others used {used} of this machine meanwhile; limit {100 * LIMIT:g} % for the full "
              f"sizes: {verdict}")
    return 1 if met is False else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
