"""What a memory budget costs, and what fits in 8 GiB.

    python benchmarks/budget.py slow MODEL ... [--batch N] [--part 0.5] [--device NAME]
    python benchmarks/budget.py limited MODEL ... [--device NAME] [--torch]

`slow`: a step at a part of its own unbudgeted memory against one without a budget, in alternating
blocks, beside what was predicted. `limited`: two steps in a process whose data (RLIMIT_DATA: all
that is private and writable) may not exceed 8 GiB and a constant for the interpreter, torch, the
model as torch has it, capture and the compiler; with --torch also the largest batch of torch eager
in a process under the same limit."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import handtorch as ht
from handtorch.api.budget import device_bytes
from handtorch.baseline.fair import MOST_OTHERS, Plan, interleave, moment, share_of_others
from handtorch.errors import HandTorchError
from handtorch.zoo.registry import MODELS

GIB = 1 << 30
LIMIT_BYTES, CONSTANT_BYTES = 8 * GIB, 2 * GIB
# The form and the batch that have to fit.
LIMITED = {"BERT": ("squad", 16), "VGG19": ("imagenet", 16), "ResNet101": ("imagenet", 16),
           "ResNet152": ("imagenet", 16), "DenseNet100_12": ("cifar", 64),
           "Seq2Seq": ("iwslt15", 64)}
_STATUS = Path("/proc/self/status")


def made(name: str, form: str, batch: int, device: str | None, memory: int | None
         ) -> tuple[Any, Any]:
    """A step and its batch."""
    entry = MODELS[name]
    torch.manual_seed(0)
    model, data = entry.make(form), entry.batch(batch, form)
    optimizers = entry.optimizers(model)
    if entry.special_step is None:
        return ht.train_step(model, entry.loss, optimizers[0], example=data, device=device,
                             memory=memory), data
    return ht.train_step(entry.step(model, optimizers), models=[model], optimizers=optimizers,
                         example=data, device=device, memory=memory), data


def slow(name: str, batch: int, part: float, device: str | None, rounds: int) -> str:
    """One row: bytes planned and used, slow-down predicted and measured."""
    whole, data = made(name, "", batch, device, None)
    budget = int(part * device_bytes(whole.program.plan))
    began = time.monotonic()
    fitted, _ = made(name, "", batch, device, budget)
    making_s = time.monotonic() - began

    def work(step: Any) -> Any:
        def run(count: int) -> None:
            for _ in range(count):
                loss = step(*data)
            loss.numpy()
        return run

    start = moment()
    times = interleave({"whole": work(whole), "fitted": work(fitted)},
                       Plan(rounds, block_s=1.0, runs=3 * rounds))
    ratios = sorted(f / w for f, w in zip(times["fitted"].seconds, times["whole"].seconds,
                                          strict=True))
    measured, predicted = ratios[len(ratios) // 2], fitted.fitted.slow_down
    others = share_of_others(start)
    noisy = others is not None and others > MOST_OTHERS
    used = sum(b.size for b in fitted.resident._banks)
    error = abs((predicted - 1) - (measured - 1)) / (measured - 1) if measured > 1 else float("nan")
    judged = f" (NOT JUDGED: others used {others:.0%} of the cores)" if noisy else ""
    return (f"{name} batch {batch}: whole {device_bytes(whole.program.plan):,} B, budget "
            f"{budget:,}, predicted peak {fitted.fitted.held_bytes:,}; arena planned "
            f"{fitted.program.plan.peak_bytes:,}, allocated {used:,}; step "
            f"{times['whole'].median_s:.3f} s, budgeted {times['fitted'].median_s:.3f} s; "
            f"slow-down measured {measured:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), predicted "
            f"{predicted:.3f}, off by {100 * error:.0f} % of the slow-down{judged}; made in "
            f"{making_s:.1f} s\n{fitted.fitted.text()}")


def limited_ours(name: str, device: str | None) -> str:
    """Runs in the limited process."""
    form, batch = LIMITED[name]
    began = time.monotonic()
    step, data = made(name, form, batch, device, LIMIT_BYTES)
    ready_s = time.monotonic() - began
    losses = []
    for _ in range(2):
        began = time.monotonic()
        losses.append(step(*data).numpy().ravel()[0])
        step_s = time.monotonic() - began
    return (f"{name} {form} batch {batch}: made in {ready_s:.0f} s, a step {step_s:.1f} s, losses "
            f"{losses[0]:.4f} {losses[1]:.4f}; most data {_status('VmPeak'):,} virtual, "
            f"{_status('VmHWM'):,} resident\n{step.fitted.text()}")


def limited_torch(name: str, batch: int) -> str:
    form, _ = LIMITED[name]
    entry = MODELS[name]
    torch.manual_seed(0)
    model, data = entry.make(form), entry.batch(batch, form)
    step = entry.step(model, entry.optimizers(model))
    for _ in range(2):
        began = time.monotonic()
        step(*data)
    return f"a step {time.monotonic() - began:.1f} s, {_status('VmHWM'):,} resident"


def _status(name: str) -> int:
    (line,) = [s for s in _STATUS.read_text().splitlines() if s.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def _limit() -> None:
    limit = LIMIT_BYTES + CONSTANT_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def child(*arguments: str) -> subprocess.CompletedProcess[str]:
    """This file again, in a limited process."""
    return subprocess.run([sys.executable, __file__, *arguments], preexec_fn=_limit, text=True,
                          capture_output=True, check=False)


def largest_of_torch(name: str) -> str:
    """Doubled while it fits, then halved into; a process for each."""
    batch = LIMITED[name][1]
    fits, fails, told = 0, 0, ""
    while not fails or fails - fits > max(1, fits // 8):
        ran = child("torch-child", name, "--batch", str(batch))
        if ran.returncode == 0:
            fits, told = batch, ran.stdout.strip()
        else:
            fails = batch
        if not fails and batch >= 8 * LIMITED[name][1]:
            return f"  torch eager: batch {fits} fits too ({told}), not tried further"
        batch = 2 * batch if not fails else (fits + fails) // 2
        if batch == 0:
            break
    return f"  torch eager: largest batch {fits} ({told}), {fails} does not fit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["slow", "limited", "child", "torch-child"])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--part", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device")
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    device = ["--device", args.device] if args.device else []
    for name in args.models:
        if args.what == "slow":
            print(slow(name, args.batch, args.part, args.device, args.rounds), flush=True)
        elif args.what == "child":
            print(limited_ours(name, args.device))
        elif args.what == "torch-child":
            print(limited_torch(name, args.batch))
        else:
            ran = child("child", name, *device)
            print(ran.stdout.strip() if ran.returncode == 0 else
                  f"{name}: {ran.stderr.strip().splitlines()[-1]}", flush=True)
            if args.torch:
                print(largest_of_torch(name), flush=True)


if __name__ == "__main__":
    try:
        main()
    except HandTorchError as refused:
        sys.exit(str(refused))
