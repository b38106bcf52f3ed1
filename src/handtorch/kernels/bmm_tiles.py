"""Which variant of a batch of products suits its sizes on a device.

Tiles are those of the single products (`tuned/gemm.json`); the batch only makes more work-groups,
so larger tiles pay earlier. What was tuned comes first (`variant.tuned_variant`)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache

from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.gemm_specs import tile_width
from handtorch.kernels.gemm_tiles import Tile, tuning_for
from handtorch.kernels.spec import ceil_div
from handtorch.kernels.variant import MOST, Problem, Variant, first_right

# With at least this many rows of C, turning B first costs less than summing lanes for each output.
TURN_ROWS = 32


@dataclass(frozen=True)
class Batch(Problem):
    """C[i] [m, n] = op(A[i]) op(B[i]) with k summed, for each of `count`; with `one_a` or `one_b`
    there is a single matrix A or B for all."""

    count: int
    m: int
    n: int
    k: int
    ta: bool = False
    tb: bool = False
    one_a: bool = False
    one_b: bool = False

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes()))
        shared = " a1" * self.one_a + " b1" * self.one_b
        return f"bmm {sizes} {'nt'[self.ta]}{'nt'[self.tb]}{shared}"

    @classmethod
    def read(cls, text: str) -> Batch | None:
        return _read(text)

    def forms(self) -> tuple[str, ...]:
        if not self.tb:
            return ("bmm",)
        return ("bmm_turned",) if self.ta else ("bmm_dot", "bmm_turned")

    def takes(self, variant: Variant) -> bool:
        return variant.form == "bmm_dot" or tile_width(dict(variant.defines)) <= self.n

    def kind(self) -> Hashable:
        return self.ta, self.tb, self.one_a, self.one_b

    def sizes(self) -> tuple[int, ...]:
        return self.count, self.m, self.n, self.k

    def table_variant(self, spec: DeviceSpec) -> Variant:
        return first_right(self._ranked(spec), self, spec)

    def _ranked(self, spec: DeviceSpec) -> Iterator[Variant]:
        """The cheapest tile first; as `gemm_tiles.best_tile`, with the batch's groups."""
        def cost(tile: Tile) -> float:
            groups = self.count * ceil_div(self.m, tile.rows) * ceil_div(self.n, tile.columns)
            return (groups + spec.compute_units) * tile.rows * tile.columns / tile.rate
        forms = self.forms()
        for form in forms[::-1] if self.m >= TURN_ROWS else forms:
            tuning = tuning_for(spec)
            for tile in sorted(tuning.dots if form == "bmm_dot" else tuning.tiles, key=cost):
                yield Variant.of(form, {k: v for k, v in tile.defines if k != "KU"})


@cache
def _read(text: str) -> Batch | None:
    found = re.fullmatch(r"bmm (\d{1,10})x(\d{1,10})x(\d{1,10})x(\d{1,10})"
                         r"(?: ([nt])([nt]))?( a1)?( b1)?", text, re.ASCII)
    count, m, n, k = map(int, found.groups()[:4]) if found else (0, 0, 0, 0)
    if not found or not all(1 <= size <= MOST for size in (count, m, n, k)):
        return None
    return Batch(count, m, n, k, found[5] == "t", found[6] == "t", bool(found[7]), bool(found[8]))
