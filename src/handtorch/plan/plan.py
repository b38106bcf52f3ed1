"""Plan: the product. Where each value lies, how much memory that takes, and who is to blame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from handtorch.plan.liveness import Life

ALIGN_BYTES = 256          # a multiple of every base alignment and vector width met so far
MOST_ELEMENTS = 1 << 32    # kernels take offsets as 32-bit counts of elements, from a bank's start

# Banks of the arena count from 0. Two more places belong to the runtime's staging ring: as indices
# they point at the end of a list of banks followed by the slot's output and input.
STAGING_IN = -1
STAGING_OUT = -2


@dataclass(frozen=True)
class Place:
    bank: int
    offset_bytes: int


@dataclass(frozen=True)
class Plan:
    """`places` by value id. `floor_bytes` is the most ever alive at once: no plan beats it.

    `lasting_bytes` is the part held between steps (weights, momenta); it is inside the peak.
    Staging is not part of the arena and is given apart. `lives` are the stretches of memory that
    were placed in it: who holds bytes, and from which step to which."""

    places: Mapping[int, Place]
    bank_bytes: tuple[int, ...]
    floor_bytes: int
    lasting_bytes: int
    staging_in_bytes: int
    staging_out_bytes: int
    peak_step: int
    alive_at_peak: tuple[int, ...]
    lives: tuple[Life, ...] = ()

    @property
    def peak_bytes(self) -> int:
        return sum(self.bank_bytes)


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES
