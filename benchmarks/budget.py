"""What a memory budget costs, and what fits in 8 GiB.

    python benchmarks/budget.py slow MODEL ... [--batch N] [--part 0.5] [--device NAME]
    python benchmarks/budget.py limited MODEL ... [--device NAME] [--torch] [--whole]

`slow`: a step at a part of its own unbudgeted memory against one without a budget, in alternating
blocks, beside what was predicted. `limited`: two steps in a process whose data (RLIMIT_DATA: all
that is private and writable) may not exceed 8 GiB and a constant for the interpreter, torch, the
model as torch has it, capture and the OpenCL runtime; with --whole also the losses without budget
and limit, with --torch also the largest batch of torch eager under the same limit (`of-torch`: that
alone). Compilers run in processes of their own, each under the same limit."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
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
# Of the constant a tiny step takes 475 MiB (torch and NumPy 216, Intel's runtime 133, capture and
# the first kernels 126), and the weights of BERT, which torch holds too, 418.
LIMIT_BYTES, CONSTANT_BYTES = 8 * GIB, 1 * GIB
# The form and the batch that have to fit.
LIMITED = {"BERT": ("squad", 16), "VGG19": ("imagenet", 16), "ResNet101": ("imagenet", 16),
           "ResNet152": ("imagenet", 16), "DenseNet100_12": ("cifar", 64),
           "Seq2Seq": ("iwslt15", 64)}
_STATUS = Path("/proc/self/status")
_LOOK_S = 0.005


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
    excess = (f"{100 * (predicted - 1):.1f} % against {100 * (measured - 1):.1f} %" + (
        f", off by {100 * abs(predicted - measured) / (measured - 1):.0f} %" if measured > 1 else
        ", which is none"))
    judged = f" (NOT JUDGED: others used {others:.0%} of the cores)" if noisy else ""
    return (f"{name} batch {batch}: whole {device_bytes(whole.program.plan):,} B, budget "
            f"{budget:,}, predicted peak {fitted.fitted.held_bytes:,}; arena planned "
            f"{fitted.program.plan.peak_bytes:,}, allocated {used:,}; step "
            f"{times['whole'].median_s:.3f} s, budgeted {times['fitted'].median_s:.3f} s; "
            f"slow-down measured {measured:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}), predicted "
            f"{predicted:.3f}: as step times predicted / measured {predicted / measured:.3f}, as "
            f"the excess alone {excess}{judged}; made in {making_s:.1f} s\n"
            f"{fitted.fitted.text()}")


class _Watch:
    """The most data this process ever had, looked at every few milliseconds: Linux keeps the mark
    of resident memory, but not of what the limit counts."""

    def __init__(self) -> None:
        self.most_bytes = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.most_bytes = max(self.most_bytes, status_bytes("VmData"))
            time.sleep(_LOOK_S)


def status_bytes(name: str) -> int:
    (line,) = [s for s in _STATUS.read_text().splitlines() if s.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def available_bytes() -> int:
    """What the machine could give without swapping."""
    (line,) = [s for s in Path("/proc/meminfo").read_text().splitlines()
               if s.startswith("MemAvailable:")]
    return int(line.split()[1]) * 1024


def two_steps(name: str, device: str | None, memory: int | None) -> dict[str, Any]:
    """What two steps were like; runs in a process of its own."""
    form, batch = LIMITED[name]
    watch, began = _Watch(), time.monotonic()
    step, data = made(name, form, batch, device, memory)
    ready_s, losses = time.monotonic() - began, []
    for _ in range(2):
        began = time.monotonic()
        losses.append(float(step(*data).numpy().ravel()[0]))
        step_s = time.monotonic() - began
    plan = step.program.plan
    return {"ready_s": ready_s, "step_s": step_s, "losses": losses, "device": step.device_name,
            "held": device_bytes(plan), "arena": plan.peak_bytes,
            "allocated": sum(b.size for b in step.resident._banks),
            "most_data": watch.most_bytes, "resident": status_bytes("VmHWM"),
            "compilers": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            "whole": step.fitted.whole_bytes if step.fitted else 0,
            "traded": step.fitted.text() if step.fitted else ""}


def step_of_torch(name: str, batch: int) -> dict[str, Any]:
    """A step of torch eager behind one of two rows, which makes the optimizer's state."""
    form, _ = LIMITED[name]
    entry, watch = MODELS[name], _Watch()
    torch.manual_seed(0)
    model = entry.make(form)
    step = entry.step(model, entry.optimizers(model))
    step(*entry.batch(2, form))
    data, began = entry.batch(batch, form), time.monotonic()
    step(*data)
    return {"step_s": time.monotonic() - began, "most_data": watch.most_bytes,
            "resident": status_bytes("VmHWM")}


def child(*arguments: str, limit_bytes: int | None) -> dict[str, Any] | str:
    """This file again, in a process that may have so many bytes of data; what it found, or the
    last line of what it said before it died."""
    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    ran = subprocess.run([sys.executable, __file__, *arguments], preexec_fn=limit, text=True,
                         capture_output=True, check=False)
    if ran.returncode == 0:
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found
    said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    return f"ended with {ran.returncode}: {'; '.join(said[-3:])}"


def limited(name: str, device: str | None, compared: bool) -> str:
    """Two steps under the limit; where asked also their losses without limit and budget."""
    form, batch = LIMITED[name]
    chosen = ["--device", device] if device else []
    found = child("ours", name, *chosen, limit_bytes=LIMIT_BYTES + CONSTANT_BYTES)
    head = f"{name} {form} batch {batch}"
    if isinstance(found, str):
        return f"{head}: {found}"
    beside = found["most_data"] - found["held"]
    lines = [f"{head} on {found['device']}: planned {found['held']:,} B, arena "
             f"{found['arena']:,} planned and {found['allocated']:,} allocated",
             f"  limit {LIMIT_BYTES + CONSTANT_BYTES:,} B of data, of which {CONSTANT_BYTES:,} for "
             f"all else; most data {found['most_data']:,}, {beside:,} beside the plan; most "
             f"resident {found['resident']:,}; largest compiler process {found['compilers']:,}",
             f"  made in {found['ready_s']:.0f} s, a step {found['step_s']:.1f} s, losses "
             f"{found['losses'][0]!r} {found['losses'][1]!r}",
             *(f"  {line}" for line in found["traded"].splitlines())]
    if "nothing was traded" in found["traded"]:
        return "\n".join([*lines, "  the program is that without a budget"])
    if not compared:
        return "\n".join(lines)
    if found["whole"] + CONSTANT_BYTES > available_bytes():
        return "\n".join([*lines, "  without a budget it is too large for this machine"])
    whole = child("whole", name, *chosen, limit_bytes=None)
    if isinstance(whole, str):
        return "\n".join([*lines, f"  without a budget: {whole}"])
    same = "equal bit for bit" if whole["losses"] == found["losses"] else "NOT equal"
    return "\n".join([*lines, f"  without a budget: holds {whole['held']:,} B, a step "
                              f"{whole['step_s']:.1f} s, losses {whole['losses'][0]!r} "
                              f"{whole['losses'][1]!r}, {same}"])


def largest_of_torch(name: str) -> str:
    """Foretold from two small batches, since bytes grow with rows in a straight line; then tried,
    and up or down from there until one fits and the next does not. A process for each."""
    def ran(rows: int) -> dict[str, Any] | str:
        return child("torch", name, "--batch", str(rows), limit_bytes=limit)
    limit, rows = LIMIT_BYTES + CONSTANT_BYTES, LIMITED[name][1]
    low, high = ran(max(1, rows // 8)), ran(rows // 2)
    if isinstance(low, str) or isinstance(high, str):
        return "  torch eager: not even half the batch fits"
    each = (high["most_data"] - low["most_data"]) / (rows // 2 - max(1, rows // 8))
    rows = rows // 2 + int((limit - high["most_data"]) / each)
    by, fits, fails, told = max(1, rows // 32), 0, 0, high
    while not (fits and fails):
        found = ran(rows)
        if isinstance(found, str):
            fails, rows = rows, rows - by
        else:
            fits, told, rows = rows, found, rows + by
    return (f"  torch eager under the same limit: largest batch {fits} (most data "
            f"{told['most_data']:,} B, a step {told['step_s']:.1f} s), {fails} does not fit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["slow", "limited", "of-torch", "ours", "whole", "torch"])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--part", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    for name in args.models:
        if args.what == "slow":
            print(slow(name, args.batch, args.part, args.device, args.rounds), flush=True)
        if args.what == "limited":
            print(limited(name, args.device, args.whole), flush=True)
        if args.what == "of-torch" or (args.what == "limited" and args.torch):
            print(largest_of_torch(name), flush=True)
        if args.what == "torch":
            print(json.dumps(step_of_torch(name, args.batch)))
        if args.what in ("ours", "whole"):
            memory = LIMIT_BYTES if args.what == "ours" else None
            print(json.dumps(two_steps(name, args.device, memory)))


if __name__ == "__main__":
    try:
        main()
    except HandTorchError as refused:
        sys.exit(str(refused))
