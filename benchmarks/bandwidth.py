"""Ops that only move memory, against a copy on the same device: how near to its bandwidth.

    python benchmarks/bandwidth.py [--device NAME] [--rounds N] [--ops OP ...] [--json]

Batch-norm in training, softmax-cross-entropy with its gradient, and optimizer updates, on tensors
of 4 MB and of 100 MB. Each is captured (updates: written down as a node), compiled and launched as
in a program; every launch counts, also the small ones that fold sums.

An op's bytes are what it cannot do without. A tensor that passes by twice counts twice only where
the first pass must end before the second can start:

    batch-norm forward       x for the statistics; x again, y
    batch-norm backward      x and dy for the sums; x and dy again, dx
    cross-entropy            logits and targets, the gradient (a row stays in a cache meanwhile)
    SGD with momentum        w, g, m; w, m
    Adam, AdamW              w, g, m, v; w, m, v

The copy is that of a tensor of the same size, which moves it twice. Blocks alternate, ratios are
taken round by round: their median, and the middle half. torch's time is for information; its
optimizers are the fused ones."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from handtorch.baseline.fair import Plan, Work, interleave, middle_half
from handtorch.capture.step import capture_function
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import Attr, Graph, Node, Value
from handtorch.graph.step import Step
from handtorch.kernels.roofline import copy_step
from handtorch.lower.lower import lower_graph
from handtorch.pipeline import compile_graph
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor

MB = 1 << 20
SIZES_MB = (4, 100)
TARGET = 0.80
CHANNELS, CLASSES = (64, 256, 512), (10, 1000, 30522)
UPDATES: dict[str, tuple[str, int, dict[str, Attr]]] = {
    "sgd momentum": ("sgd", 1, {"momentum": 0.9}),
    "adam": ("adam", 2, {}), "adamw": ("adam", 2, {"decoupled": True})}
_ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
EPS = 1e-5
Fn = Callable[..., Any]
Array = Any


@dataclass(frozen=True)
class Job:
    """One op at one size: its launches, what goes in, the bytes it must move, torch's own."""

    op: str
    shape: tuple[int, ...]
    size_mb: int
    steps: tuple[Step, ...]
    given: dict[int, Array]
    moved: int
    torch: Work


@dataclass(frozen=True)
class Row:
    """Rates in GB/s of the bytes that must move; `ratio` is ours over the copy's."""

    op: str
    shape: tuple[int, ...]
    size_mb: int
    launches: int
    ours: float
    copy: float
    ratio: float
    spread: float
    torch: float

    def line(self) -> str:
        shape = "x".join(map(str, self.shape))
        return (f"{self.op:<20} {self.size_mb:>4} MB {shape:<14} {self.launches:>2} launches "
                f"{self.ours:>6.1f} {self.copy:>6.1f}  ratio {self.ratio:.2f} spread "
                f"{self.spread:.2f}  {'' if self.ratio >= TARGET else 'UNDER'} "
                f"  torch {self.torch:.1f}")


def captured(name: str, fn: Fn, example: Sequence[torch.Tensor], spec: DeviceSpec, size_mb: int,
             passes: int) -> Job:
    """`fn` as a program runs it; the first of `example` is the tensor that passes by."""
    program = compile_graph(capture_function(fn, example).graph, spec)
    given = {p.value.id: t.detach().numpy()
             for p, t in zip(program.graph.inputs, example, strict=True)}

    def theirs(times: int) -> None:
        for _ in range(times):
            fn(*example)
    x = example[0]
    moved = passes * 4 * x.numel() + 4 * sum(t.numel() for t in example if t.dtype == torch.int64)
    return Job(name, tuple(x.shape), size_mb, program.steps, given, moved, theirs)


def batch_norm(spec: DeviceSpec, size_mb: int, channels: int) -> Iterator[Job]:
    """A picture with its channels last is a matrix of channels: so it is given here."""
    rows = size_mb * MB // 4 // channels
    x, dy = torch.randn(rows, channels), torch.randn(rows, channels)
    w, b, mean = (torch.randn(channels) for _ in range(3))
    scale = torch.rand(channels) + 0.5

    def forward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, w, b, training=True, eps=EPS)

    def backward(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor,
                 scale: torch.Tensor) -> Any:
        return torch.ops.aten.native_batch_norm_backward(
            dy, x, w, None, None, mean, scale, True, EPS, [True, True, True])
    with torch.no_grad():
        yield captured("batch-norm forward", forward, (x, w, b), spec, size_mb, 3)
        yield captured("batch-norm backward", backward, (dy, x, w, mean, scale), spec, size_mb, 5)


def cross_entropy(spec: DeviceSpec, size_mb: int, classes: int) -> Iterator[Job]:
    rows = size_mb * MB // 4 // classes
    target = torch.randint(0, classes, (rows,), dtype=torch.int64)

    def loss_and_gradient(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(x, target)
        return (loss.detach(), *torch.autograd.grad(loss, x))
    yield captured("cross-entropy", loss_and_gradient, (torch.randn(rows, classes), target), spec,
                   size_mb, 2)


def update(spec: DeviceSpec, size_mb: int, name: str) -> Iterator[Job]:
    op, count, attrs = UPDATES[name]
    size = size_mb * MB // 4
    old = [Value(i, (size,)) for i in range(2 + count)]          # w, g, moments
    c = Value(len(old), (1,) if op == "sgd" else (3,))
    new = [Value(c.id + 1 + i, (size,)) for i in range(1 + count)]
    node = Node(op, (*old[:2], c, *old[2:]), tuple(new),
                {**({} if op == "sgd" else _ADAM), "decay": 0.01, "maximize": False,
                 "nesterov": False, **attrs})
    steps = lower_graph(Graph((node,), (), (), ()), spec).steps
    # What is updated is read and written under its new name: both lie in one place.
    rng = np.random.default_rng(0)
    given = {v.id: rng.uniform(0.1, 1, v.shape).astype("f4") for v in (old[1], *new)}
    given[c.id] = np.array([1e-6, 1.0, 1.0][:c.size], "f4")
    yield Job(name, (size,), size_mb, steps, given, 4 * size * (3 + 2 * count), torch_update(
        name, size))


def torch_update(name: str, size: int) -> Work:
    w = torch.rand(size)
    w.grad = torch.rand(size)
    settings = {"lr": 1e-6, "weight_decay": 0.01, "fused": True}
    optimizer: torch.optim.Optimizer = {
        "sgd momentum": lambda: torch.optim.SGD([w], momentum=0.9, **settings),
        "adam": lambda: torch.optim.Adam([w], **settings),
        "adamw": lambda: torch.optim.AdamW([w], **settings)}[name]()

    def work(times: int) -> None:
        for _ in range(times):
            optimizer.step()
    return work


def jobs(spec: DeviceSpec, ops: Sequence[str], sizes: Sequence[int]) -> Iterator[Job]:
    for size_mb in sizes:
        for channels in CHANNELS if "norm" in ops else ():
            yield from batch_norm(spec, size_mb, channels)
        for classes in CLASSES if "loss" in ops else ():
            yield from cross_entropy(spec, size_mb, classes)
        for name in UPDATES if "update" in ops else ():
            yield from update(spec, size_mb, name)


def queued(bare: BareSteps) -> Work:
    def work(times: int) -> None:
        bare.enqueue(times)
        bare.finish()
    return work


def measure(on: OpenCLExecutor, job: Job, rounds: int) -> Row:
    like = copy_step(on.spec, job.size_mb * MB // 4)
    bare, copy = BareSteps(on, job.steps, job.given), BareSteps(on, [like], {})
    times = interleave({"ours": queued(bare), "copy": queued(copy), "torch": job.torch},
                       Plan(rounds=rounds))
    bare.close()
    copy.close()
    ratios = [job.moved / a / (like.bytes / b) for a, b in zip(
        times["ours"].seconds, times["copy"].seconds, strict=True)]

    def rate(side: str, moved: int) -> float:
        return moved / times[side].median_s / 1e9
    return Row(job.op, job.shape, job.size_mb, len(job.steps), rate("ours", job.moved),
               rate("copy", like.bytes), median(ratios), middle_half(ratios),
               rate("torch", job.moved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ops", nargs="+", choices=("norm", "loss", "update"),
                        default=["norm", "loss", "update"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES_MB, metavar="MB")
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args()
    on, rows = OpenCLExecutor(choose(args.device)), []
    if not args.json:
        print(f"{on.found.label}: GB/s ours / copy, their ratio; torch's for information")
    for job in jobs(on.spec, args.ops, args.sizes):
        rows.append(row := measure(on, job, args.rounds))
        if not args.json:
            print(row.line(), flush=True)
    if args.json:
        print(json.dumps([asdict(r) for r in rows]))


if __name__ == "__main__":
    main()
