"""What part of a processor's peak our own kernels reach, on devices where nobody measured them."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.place.predict import Software, Work

PRODUCT, POINTWISE = "product", "pointwise"
_PRODUCTS = ("gemm", "conv", "bmm", "depthwise", "lstm", "rnn", "winograd")


@dataclass(frozen=True)
class Shares:
    """`source` is said wherever a time made with them is shown."""

    software: Software
    source: str


# Bytes are counted once for each launch, and what is read again comes from caches: so memory and
# arithmetic overlap in these kernels, and the longer of the two counts.
SHARES = {
    "gpu": Shares(Software({PRODUCT: 0.055, POINTWISE: 0.5}, overlaps=True),
                  "products reach 5.5 % of the peak: 40 of 727 GFLOPS by the OpenCL kernels of Das "
                  "et al. (2022) on a OnePlus 6, not ours; other kernels half of it, assumed"),
    "cpu": Shares(Software({PRODUCT: 0.5, POINTWISE: 0.5}, overlaps=True),
                  "kernels reach half of the peak, assumed"),
}


def work_of(kernel: str, flops: float, moved_bytes: float) -> Work:
    """One launch of ours; weights are among its bytes."""
    kind = PRODUCT if kernel.startswith(_PRODUCTS) else POINTWISE
    return Work(kind, flops, 0.0, moved_bytes)
