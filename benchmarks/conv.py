"""Our convolutions against torch's (oneDNN), each pass, every distinct shape of some nets.

    python benchmarks/conv.py [--device NAME] [--rounds N] [--nets NET ...] [--json]

Shapes: ResNet50 and VGG16 at 32x32, batch 16, and ResNet50 at 224x224, batch 1; the depthwise ones
of MobileNetV2 at both sizes, which are summed up apart. Ours reads and
writes pictures with channels last and weights with their taps first, as they lie on the device
from step to step; torch is taken twice, as it comes and in channels_last, weights and all. Blocks
alternate; ratios are taken round by round."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from statistics import median
from typing import Any

import numpy as np
import torch

from handtorch.baseline.fair import Plan, Work, interleave
from handtorch.graph.node import Value
from handtorch.kernels.conv import Conv, Launches
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.zoo.registry import MODELS

NETS = {"ResNet50 32": ("ResNet50", "cifar", 16, 32), "VGG16 32": ("VGG16", "cifar", 16, 32),
        "ResNet50 224": ("ResNet50", "imagenet", 1, 224),
        "MobileNetV2 32": ("MobileNetV2", "cifar", 16, 32),
        "MobileNetV2 224": ("MobileNetV2", "imagenet", 1, 224)}
PASSES = ("forward", "grad_input", "grad_weight")
X, W, Y, SCRATCH = range(4)


@dataclass(frozen=True)
class Row:
    """Rates in GFLOPS; ratios are ours over torch's, median of the rounds."""

    net: str
    shape: str
    kind: str
    ours: float
    torch: float
    channels_last: float
    ratio: float
    ratio_last: float


def shapes(net: str) -> Iterator[Conv]:
    """Each distinct convolution of a net, in the order it is met; of one that has depthwise ones
    only these, the others being like those of the other nets."""
    name, form, batch, side = NETS[net]
    model, seen = MODELS[name].make(form), dict[Conv, None]()

    def note(layer: Any, given: Any, out: torch.Tensor) -> None:
        (x,), g = given, layer.groups
        (n, inner, *side), (_, outer, *made) = x.shape, out.shape
        seen[Conv(n, g, inner // g, outer // g, (side[0], side[1]), (made[0], made[1]),
                  layer.kernel_size, layer.stride, layer.padding, layer.dilation)] = None
    for layer in model.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        model.eval()(torch.zeros(batch, 3, side, side))
    apart = [c for c in seen if c.is_depthwise]
    yield from apart or seen


def ours(on: OpenCLExecutor, c: Conv, kind: str) -> BareSteps:
    fresh = count(SCRATCH)
    launches = Launches(c, on.spec, lambda shape: Value(next(fresh), tuple(shape)))
    values = {X: Value(X, (c.n, *c.x, c.groups * c.inner)),
              W: Value(W, (*c.kernel, c.inner, c.groups * c.outer)),
              Y: Value(Y, (c.n, *c.y, c.groups * c.outer))}
    order = {"forward": (X, W, Y), "grad_input": (Y, W, X), "grad_weight": (Y, X, W)}[kind]
    rng = np.random.default_rng(0)
    given = {i: rng.normal(size=values[i].shape).astype("f4") for i in order[:2]}
    return BareSteps(on, getattr(launches, kind)(*(values[i] for i in order)), given)


def theirs(c: Conv, kind: str, last: bool) -> Work:
    kept = torch.channels_last if last else torch.contiguous_format
    x, w, dy = (torch.randn(s).contiguous(memory_format=kept) for s in (
        (c.n, c.groups * c.inner, *c.x), (c.groups * c.outer, c.inner, *c.kernel),
        (c.n, c.groups * c.outer, *c.y)))
    settings = (c.stride, c.padding, c.dilation, False, (0, 0), c.groups)
    mask = [kind == "grad_input", kind == "grad_weight", False]

    def work(times: int) -> None:
        with torch.no_grad():
            for _ in range(times):
                if kind == "forward":
                    torch.ops.aten.convolution(x, w, None, *settings)
                else:
                    torch.ops.aten.convolution_backward(dy, x, w, None, *settings, mask)
    return work


def measure(on: OpenCLExecutor, net: str, c: Conv, kind: str, rounds: int) -> Row:
    bare = ours(on, c, kind)

    def queued(times: int) -> None:
        bare.enqueue(times)
        bare.finish()
    times = interleave({"ours": queued, "torch": theirs(c, kind, False),
                        "last": theirs(c, kind, True)}, Plan(rounds=rounds))
    bare.close()
    flops = 2 * c.n * c.groups * c.outer * math.prod(c.y) * c.inner * math.prod(c.kernel)

    def ratio(other: str) -> float:
        return median(b / a for a, b in zip(times["ours"].seconds, times[other].seconds,
                                            strict=True))
    mine, other, last = (flops / times[s].median_s / 1e9 for s in ("ours", "torch", "last"))
    shape = (f"{c.n},{c.groups * c.inner},{c.x[0]},{c.groups * c.outer},{c.kernel[0]},"
             f"{c.stride[0]}")
    name = f"depthwise {kind}" if c.is_depthwise else kind
    return Row(net, shape, name, mine, other, last, ratio("torch"), ratio("last"))


def summary(rows: Sequence[Row]) -> str:
    lines = []
    for kind in (*PASSES, *(f"depthwise {p}" for p in PASSES)):
        part = [r for r in rows if r.kind == kind]
        if part:
            means = [math.exp(sum(math.log(getattr(r, n)) for r in part) / len(part))
                     for n in ("ratio", "ratio_last")]
            worst, last = (min(part, key=lambda r: getattr(r, n)) for n in ("ratio", "ratio_last"))
            lines.append(f"{kind:<22} geometric mean {means[0]:.2f} of torch, {means[1]:.2f} of "
                         "its channels_last; worst "
                         f"{worst.ratio:.2f} ({worst.net}: {worst.shape}) and "
                         f"{last.ratio_last:.2f} ({last.net}: {last.shape})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--json", action="store_true", help="print one JSON record only")
    args = parser.parse_args()
    on, rows = OpenCLExecutor(choose(args.device)), []
    if not args.json:
        print(f"{on.found.label}: GFLOPS ours / torch / channels_last, and ours over each")
    for net in args.nets:
        for c in shapes(net):
            for kind in PASSES:
                rows.append(row := measure(on, net, c, kind, args.rounds))
                if not args.json:
                    print(f"{net:<13} {row.shape:<22} {row.kind:<22} {row.ours:>5.0f} "
                          f"{row.torch:>5.0f} {row.channels_last:>5.0f}  {row.ratio:>5.2f} "
                          f"{row.ratio_last:>5.2f}", flush=True)
    print(json.dumps([asdict(r) for r in rows]) if args.json else summary(rows))


if __name__ == "__main__":
    main()
