"""What every reader gives: samples in two parts, where they are from, and an order for a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadInput

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Part = Literal["train", "held_out"]
GENERATED = "generated"


@dataclass(frozen=True)
class DataSet:
    """Row k of every array of a part is sample k; `held_out` is never trained on.

    `source` is the path, the game, or "generated". The arrays cannot be written to, and nobody
    else can write to their memory, so that a device may read them where they lie."""

    name: str
    source: str
    train: Arrays
    held_out: Arrays

    def __post_init__(self) -> None:
        for part in (self.train, self.held_out):
            assert len({len(array) for array in part}) == 1, "as many labels as samples"
            for array in part:
                settle(array)
        for part_name, part in (("training", self.train), ("held-out", self.held_out)):
            if not len(part[0]):
                raise BadInput(f"the data set {self.name} from {self.source}",
                               why=f"it has no {part_name} samples", fix="give it more data")

    @property
    def generated(self) -> bool:
        return self.source == GENERATED

    def part(self, part: Part) -> Arrays:
        return self.train if part == "train" else self.held_out


def settle(array: Array) -> Array:
    """Nobody can write to the array, nor to the arrays it is a view of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base.flags.writeable = False
        base = base.base
    return array


def rows_of(count: int, size: int, index: int, seed: int) -> NDArray[np.int64]:
    """Which of `count` samples are in batch `index`: the same for the same four numbers.

    The order goes on without end: every epoch shuffles all samples anew, and a batch may reach
    into the next epoch, so that no sample is left out and a batch may be larger than the set."""
    if size < 1 or index < 0:
        raise BadInput(f"batch {index} of size {size}", why="a size is at least 1, an index 0",
                       fix="positive numbers")
    at, rows = index * size, []
    while size:
        epoch, first = divmod(at, count)
        some = _order(count, epoch, seed)[first:first + size]
        rows.append(some)
        at, size = at + len(some), size - len(some)
    return np.concatenate(rows)


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(count)


def split_off(arrays: Sequence[Array], share: float = 0.1) -> tuple[Arrays, Arrays]:
    """The last `share` of the samples apart, at least one; for sets that come in one piece."""
    count = len(arrays[0])
    held = min(max(1, round(count * share)), count)
    return tuple(a[:count - held] for a in arrays), tuple(a[count - held:] for a in arrays)
