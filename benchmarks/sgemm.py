"""The product our lowering picks against the better of NumPy's and torch's BLAS, many rounds.

    python benchmarks/sgemm.py [--device NAME] [--rounds N]

On a shared machine one round says little: the ratio is taken round by round, blocks alternating,
and shown as its median with the middle half."""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

from handtorch.baseline.fair import Plan, Work, interleave
from handtorch.baseline.gemm import has_torch, numpy_product, torch_product
from handtorch.graph.node import Value
from handtorch.kernels.gemm import matmul_steps
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.discover import choose
from handtorch.runtime.opencl.executor import OpenCLExecutor

SIZES = (256, 512, 1024)


def queued(bare: BareSteps) -> Work:
    def work(count: int) -> None:
        bare.enqueue(count)
        bare.finish()
    return work


def duel(on: OpenCLExecutor, n: int, rounds: int) -> str:
    rng = np.random.default_rng(n)
    a, b = (rng.uniform(-1, 1, (n, n)).astype("f4") for _ in range(2))
    va, vb, vc = (Value(i, (n, n)) for i in range(3))
    steps = matmul_steps(va, vb, vc, spec=on.spec, new_value=lambda shape: Value(3, shape))
    bare = BareSteps(on, steps, {0: a, 1: b})
    sides = {"ours": queued(bare), "NumPy": numpy_product(a, b)}
    if has_torch():
        sides["torch"] = torch_product(a, b)
    times = interleave(sides, Plan(rounds=rounds))
    bare.close()
    best = min((s for s in times if s != "ours"), key=lambda s: times[s].median_s)
    ratios = sorted(t / o for o, t in zip(times["ours"].seconds, times[best].seconds, strict=True))
    rates = "  ".join(f"{s} {2 * n**3 / times[s].median_s / 1e9:.0f}" for s in times)
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    return (f"{n:>5}  ours / {best} {median(ratios):.3f}  middle half {low:.2f} to {high:.2f}  "
            f"GFLOPS: {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", help="as for handtorch; the best there is if not named")
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args()
    on = OpenCLExecutor(choose(args.device))
    print(f"{on.found.label}: {on.spec.name}, {args.rounds} rounds")
    for n in SIZES:
        print(duel(on, n, args.rounds), flush=True)


if __name__ == "__main__":
    main()
