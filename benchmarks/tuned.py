"""A training step with the table's kernels and with tuned ones, in alternating blocks of one run.

    handtorch tune ResNet50 --batch 16 --device NAME        first, so that there is something to use
    python benchmarks/tuned.py ResNet50 [--form F] [--batch N] [--device NAME] [--rounds N] [--json]

Both are compiled here: the first with an empty cache, so that no results are found."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles

from handtorch.api.make import train_step
from handtorch.api.step import TrainStep
from handtorch.baseline.fair import Plan, Work, interleave, moment, share_of_others
from handtorch.kernels.variant import built_by
from handtorch.zoo.registry import MODELS

CACHE = "HANDTORCH_CACHE"


@contextmanager
def no_results() -> Iterator[None]:
    """Within it nothing is kept and nothing found."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            os.environ.pop(CACHE)
            if before is not None:
                os.environ[CACHE] = before


def made(args: argparse.Namespace) -> TrainStep:
    entry = MODELS[args.model]
    model, data = entry.make(args.form), entry.batch(args.batch, args.form)
    optimizers = entry.optimizers(model)
    return train_step(entry.step(model, optimizers), models=[model], optimizers=optimizers,
                      example=data, device=args.device, check_finite=False)


def running(step: TrainStep, args: argparse.Namespace) -> Work:
    batch = MODELS[args.model].batch(args.batch, args.form)

    def work(times: int) -> None:
        for _ in range(times):
            loss = step(*batch)
        float(loss)
    return work


def changed(table: TrainStep, tuned: TrainStep) -> tuple[int, int]:
    """Launches of kernels that have variants, and how many of them are other ones when tuned."""
    count, differ = 0, 0
    kinds: list[dict[int, set[object]]] = []
    for step in (table, tuned):
        found: dict[int, set[object]] = {}
        for launch in step.program.steps:
            if built_by(launch):
                found.setdefault(launch.node, set()).add(
                    (launch.kernel, launch.defines, launch.global_size, launch.scalars))
        kinds.append(found)
    for node, launches in kinds[0].items():
        count += 1
        differ += launches != kinds[1].get(node)
    return count, differ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--form", default="")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with no_results():
        table = made(args)
    tuned = made(args)
    nodes, differ = changed(table, tuned)
    start = moment()
    times = interleave({"table": running(table, args), "tuned": running(tuned, args)},
                       Plan(rounds=args.rounds))
    others = share_of_others(start)
    ratios = [a / b for a, b in zip(times["table"].seconds, times["tuned"].seconds, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    record = {"model": args.model, "batch": args.batch, "device": args.device,
              "nodes": nodes, "nodes_changed": differ,
              "table_s": times["table"].seconds, "tuned_s": times["tuned"].seconds,
              "ratio": median(ratios), "ratio_quartiles": (low, high), "others": others}
    if args.json:
        print(json.dumps(record))
        return
    print(f"{args.model} batch {args.batch} on {args.device}: {differ} of {nodes} products and "
          f"convolutions changed")
    for name, timing in times.items():
        print(f"{name}: {timing.median_s * 1e3:.2f} ms a step, median of {len(timing.seconds)} "
              f"blocks, {min(timing.seconds) * 1e3:.2f} to {max(timing.seconds) * 1e3:.2f}")
    print(f"table / tuned: {median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}; others used "
          f"{'an unknown share' if others is None else f'{others:.0%}'} of the machine")


if __name__ == "__main__":
    main()
