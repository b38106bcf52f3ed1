"""How long a list of launches takes on a device that is not at hand, and what it draws there.

    T = sum over launches [ L + F / (share P) + Q / W ] / (1 - load)
      + sum over copies [ c + bytes / w ]

P, W, L, c and w are the device's (its sheet), the shares are the software's: what part of the peak
its kernels of a kind reach. That separation is what lets rows of one device foretell another, and
rows of one network foretell another on the same device. All of it is `simulated`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from handtorch.errors import BadInput

PROVENANCE = "simulated"
# Winograd's way of a 3x3 convolution, tiles of 4x4: 36 numbers are kept for 9 weights.
WINOGRAD_WEIGHTS = 4.0


@dataclass(frozen=True)
class Work:
    """One launch: the class of its kernel, operations, bytes of weights, all other bytes."""

    kind: str
    flops: float
    weight_bytes: float
    other_bytes: float


@dataclass(frozen=True)
class Rates:
    """What a processor does at best, and what a launch and a copy cost on it."""

    flops_per_s: float
    bytes_per_s: float
    launch_s: float
    copy_s: float = 0.0
    copy_bytes_per_s: float = float("inf")


@dataclass(frozen=True)
class Software:
    """What part of a processor's peak the kernels of each kind reach; `other` those not named.

    `overlaps`: memory and arithmetic at the same time (the longer counts), as in kernels that keep
    a processor busy; else one after the other, as in engines that pack what they are about to use.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    other: float = 1.0
    winograd: bool = False
    overlaps: bool = False

    def share(self, kind: str) -> float:
        return self.shares.get(kind, self.other)

    def moved_bytes(self, work: Work) -> float:
        grows = WINOGRAD_WEIGHTS if self.winograd and work.kind == "conv3x3" else 1.0
        return grows * work.weight_bytes + work.other_bytes


@dataclass(frozen=True)
class Times:
    """Seconds of a run by what they are spent on; `busy_s` is arithmetic and memory, as they
    overlap or not."""

    launches: int
    launch_s: float
    compute_s: float
    memory_s: float
    busy_s: float
    copy_s: float

    @property
    def total_s(self) -> float:
        return self.launch_s + self.busy_s + self.copy_s

    @property
    def bound(self) -> str:
        """What takes most of the time."""
        parts = {"launch": self.launch_s, "compute": self.compute_s, "memory": self.memory_s,
                 "copy": self.copy_s}
        return max(parts, key=parts.__getitem__)


def predict(works: Iterable[Work], rates: Rates, software: Software,
            copies_bytes: Sequence[float] = (), load: float = 0.0) -> Times:
    """`load` is what others use of the processor, from 0 to below 1: the rest is for the launches.
    """
    if not 0 <= load < 1:
        raise BadInput(f"a load of {load:g}",
                       why="it is the share that others use, from 0 to below 1")
    slower = 1 / (1 - load)
    count, compute_s, memory_s, busy_s = 0, 0.0, 0.0, 0.0
    for work in works:
        compute = work.flops / (software.share(work.kind) * rates.flops_per_s)
        memory = software.moved_bytes(work) / rates.bytes_per_s
        count += 1
        compute_s, memory_s = compute_s + compute, memory_s + memory
        busy_s += max(compute, memory) if software.overlaps else compute + memory
    copy_s = sum(rates.copy_s + nbytes / rates.copy_bytes_per_s for nbytes in copies_bytes)
    return Times(count, slower * count * rates.launch_s, slower * compute_s, slower * memory_s,
                 slower * busy_s, copy_s)
