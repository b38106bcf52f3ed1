"""From the call of `train_step` to the first loss: with nothing compiled yet, and once more after.

    python benchmarks/start.py [--model NAME] [--device NAME] [--batch N]

Each start is a process of its own. The first finds an empty cache folder, the second what the first
left there. What is timed begins after the imports, and after the optimizer was made: for the first
one of a process torch imports its own compiler, which is told apart."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch

import handtorch as ht
from handtorch.runtime.opencl.discover import choose
from handtorch.zoo.registry import MODELS


def start(model: str, device: str, batch: int) -> str:
    torch.manual_seed(0)
    entry = MODELS[model]
    made, data = entry.make(), entry.batch(batch)
    before = time.monotonic()
    optimizer = entry.optimizers(made)[0]
    began = time.monotonic()
    step = ht.train_step(made, entry.loss, optimizer, example=data, device=device)
    ready = time.monotonic()
    loss = float(step(*data))
    end = time.monotonic()
    step.close()
    return (f"{end - began:.1f} s to the first loss, {loss:.4f} (of which {ready - began:.1f} s "
            f"until the call returned); before, {began - before:.1f} s for torch's optimizer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", choices=MODELS, default="ResNet50")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--here", action="store_true", help="one start, with the caches there are")
    args = parser.parse_args()
    device = choose(args.device).label
    if args.here:
        print(start(args.model, device, args.batch))
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("cold", "warm"):
            told = [sys.executable, __file__, "--here", "--device", device, "--model", args.model,
                    "--batch", str(args.batch)]
            done = subprocess.run(told, env={**os.environ, "HANDTORCH_CACHE": folder}, check=True,
                                  capture_output=True, text=True)
            print(f"{args.model}, batch {args.batch}, {device}, {kind}: {done.stdout.strip()}",
                  flush=True)


if __name__ == "__main__":
    main()
