"""The products our lowering picks against the better of NumPy's and torch's BLAS, many rounds.

    python benchmarks/sgemm.py [--device NAME] [--rounds N] [--sizes N ...] [--mlp]

Square ones, or with --mlp those of a training step of Model 4 (784-256-128-16) at batch 32: forward
(NT), the gradient of x (NN) and of w (TN) of each layer. On a shared machine one round says little:
ratios are taken round by round, blocks alternating, and shown as their median with the middle half.
The share of the peak is of the multiply-adds measured in the same rounds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

import numpy as np

from handtorch.baseline.fair import Plan, Work, interleave
from handtorch.baseline.gemm import has_torch, numpy_product, torch_product
from handtorch.graph.node import Value
from handtorch.kernels.gemm import matmul_steps
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.roofline import fma_step
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor

SIZES = (128, 256, 512, 1024)
MODEL_4, BATCH = (784, 256, 128, 16), 32
PEAK_LOOPS = 1000


def mlp_products() -> Iterator[Product]:
    """Of each layer: y = x wT, dx = dy w, dw = dyT x; the first layer needs no dx."""
    for k, n in pairwise(MODEL_4):
        yield Product(BATCH, n, k, False, True)
        if k != MODEL_4[0]:
            yield Product(BATCH, k, n, False, False)
        yield Product(n, k, BATCH, True, False)


def queued(bare: BareSteps) -> Work:
    def work(count: int) -> None:
        bare.enqueue(count)
        bare.finish()
    return work


def duel(on: OpenCLExecutor, product: Product, rounds: int) -> tuple[str, float]:
    """A line to print, and ours over the better of the others."""
    m, n, k = product.sizes()
    values = Value(0, (k, m) if product.ta else (m, k)), Value(1, (n, k) if product.tb else (k, n))
    steps = matmul_steps(*values, Value(2, (m, n)), ta=product.ta, tb=product.tb, spec=on.spec,
                         new_value=lambda shape: Value(3, shape))
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, v.shape).astype("f4") for v in values)
    bare, fma = BareSteps(on, steps, {0: a, 1: b}), fma_step(on.spec, PEAK_LOOPS)
    peak = BareSteps(on, (fma,), {})
    turned = a.T if product.ta else a, b.T if product.tb else b
    sides = {"ours": queued(bare), "peak": queued(peak), "NumPy": numpy_product(*turned)}
    if has_torch():
        sides["torch"] = torch_product(*turned)
    times = interleave(sides, Plan(rounds=rounds))
    bare.close()
    peak.close()
    best = min((s for s in times if s not in ("ours", "peak")), key=lambda s: times[s].median_s)
    ratios = sorted(t / o for o, t in zip(times["ours"].seconds, times[best].seconds, strict=True))
    flops = 2 * m * n * k
    shares = [flops / o * p / fma.flops
              for o, p in zip(times["ours"].seconds, times["peak"].seconds, strict=True)]
    rates = "  ".join(f"{s} {flops / times[s].median_s / 1e9:.0f}" for s in times if s != "peak")
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    return (f"{product!s:<22} ours / {best} {median(ratios):.3f}  middle half {low:.2f} to "
            f"{high:.2f}  {median(shares):.0%} of peak  GFLOPS: {rates}", median(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--mlp", action="store_true", help="the products of Model 4, batch 32")
    args = parser.parse_args()
    on = OpenCLExecutor(choose(args.device))
    print(f"{on.found.label}: {on.spec.name}, {args.rounds} rounds")
    products = (list(mlp_products()) if args.mlp
                else [Product(n, n, n, False, False) for n in args.sizes])
    ratios = []
    for product in products:
        line, ratio = duel(on, product, args.rounds)
        ratios.append(ratio)
        print(line, flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.3f}, worst {min(ratios):.3f}")


if __name__ == "__main__":
    main()
