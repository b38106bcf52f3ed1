"""Study `sgemm`: C = A B in single precision, from the naive kernel to the best we have.

After "Enabling On-Device Smartphone GPU based Training: Lessons Learned" (2022), Fig. 3: square
matrices, 500 hot runs after warm-up with unchanged arguments, GFLOPS = 2 n^3 / mean time. Ours are
queued together and waited for once; the CPU's BLAS is called as often, in blocks that alternate."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.baseline.fair import Plan
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.step import Step

QUESTION = "Do tiling and vectors turn a phone GPU's SGEMM from a loss into a win?"
NAME = "sgemm"
SIZES = (*range(32, 513, 32), 1024)
QUICK_SIZES = (64, 256, 512, 1024)
JUDGED = (256, 512, 1024)
BEST, NUMPY, TORCH = "best", "NumPy", "torch"
SOURCE = ("Das et al., Enabling On-Device Smartphone GPU based Training: Lessons Learned, 2022, "
          "Fig. 3 and section V; size as in the figure's last point")
PUBLISHED = (("OnePlus Nord GPU, naive", 5), ("OnePlus 6 GPU, naive", 10),
             ("OnePlus 8 Pro GPU, naive", 15), ("OnePlus Nord GPU, optimised", 25),
             ("OnePlus 6 GPU, optimised", 40), ("OnePlus 8 Pro GPU, optimised", 70),
             ("OnePlus 6 CPU", 15), ("OnePlus 8 Pro CPU", 30))

# 500 runs at every size of the paper; at 1024 and in the quick form what fits into the time.
FULL = Plan(rounds=5, runs=500)
LARGE = Plan(rounds=5, runs=500, most_s=4.0)
QUICK = Plan(rounds=3, runs=500, most_s=0.060, refuse_s=0.5)
DUEL = Plan(rounds=7)                       # the judged ratio: more rounds of three sides only

Product = Callable[[DeviceSpec, int], tuple[Step, ...]]
