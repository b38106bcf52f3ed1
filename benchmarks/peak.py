"""The planned peak of a training step against the memory that PyTorch's own step takes.

    python benchmarks/peak.py [MODEL ...] [--batch N] [--device NAME]

PyTorch's figure is the high-water mark of a fresh process after three steps less that before its
first: weights and batch stand already then and are not in it. Ours is the whole arena: weights,
optimizer state, batch and all that comes between."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from handtorch.capture.step import capture_train_step, capture_user_step
from handtorch.graph.device_spec import DeviceSpec
from handtorch.pipeline import compile_graph
from handtorch.runtime.choose import open_executor
from handtorch.zoo.registry import MODELS

STEPS = 3
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """Bytes; `at_start` is what stands before the first step: weights and the batch."""

    name: str
    planned: int
    floor: int
    torch: int
    at_start: int

    def row(self) -> str:
        return (f"{self.name:<15} {self.planned / 1e6:>10.1f} {self.planned / self.floor:>7.3f} "
                f"{self.torch / 1e6:>10.1f} {self.planned / self.torch:>7.3f} "
                f"{self.planned / (self.torch + self.at_start):>12.3f}")


HEAD = (f"{'model':<15} {'planned MB':>10} {'/ floor':>7} {'torch MB':>10} {'ratio':>7} "
        f"{'with weights':>12}")


def compare(name: str, batch: int, spec: DeviceSpec) -> Peak:
    entry = MODELS[name]
    model, data = entry.make(), entry.batch(batch)
    optimizers = entry.optimizers(model)
    captured = (capture_train_step(model, entry.loss, optimizers[0], data)
                if entry.special_step is None else
                capture_user_step(entry.step(model, optimizers), [model], optimizers, data))
    plan = compile_graph(captured.graph, spec).plan
    tensors = (*model.state_dict().values(), *data)
    return Peak(name, plan.peak_bytes, plan.floor_bytes, torch_bytes(name, batch),
                sum(t.numel() * t.element_size() for t in tensors))


def torch_bytes(name: str, batch: int) -> int:
    """Measured in a process of its own: memory that was used once is never given back whole."""
    ran = subprocess.run([sys.executable, __file__, "--measure-torch", name, "--batch",
                          str(batch)], capture_output=True, text=True, check=True)
    return int(ran.stdout)


def measure_torch(name: str, batch: int) -> int:
    entry = MODELS[name]
    model, data = entry.make(), entry.batch(batch)
    step = entry.step(model, entry.optimizers(model))
    before = high_water_bytes()
    for _ in range(STEPS):
        step(*data)
    return high_water_bytes() - before


def high_water_bytes() -> int:
    (line,) = [s for s in _STATUS.read_text().splitlines() if s.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", help="plan for this one; the best there is if not named")
    parser.add_argument("--measure-torch", metavar="MODEL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.measure_torch:
        print(measure_torch(args.measure_torch, args.batch))
        return
    spec = open_executor(args.device).spec
    print(f"{spec.name}, batch {args.batch}, full size\n{HEAD}")
    for name in args.models or MODELS:
        print(compare(name, args.batch, spec).row(), flush=True)


if __name__ == "__main__":
    main()
