"""Batches that no step copies: `lend`, whose owner promises to leave them alone, and what torch
itself keeps as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.runtime.device import Array


class Lent:
    """Stands under a read-only array and says that nobody writes to the memory at `address`, which
    `owner` keeps alive. Whether that lasts beyond one step tells if parts of it may come again."""

    def __init__(self, owner: Any, address: int, like: Mapping[str, Any], *, lasts: bool) -> None:
        self.owner, self.lasts = owner, lasts
        self.__array_interface__ = {**like, "data": (address, True)}


def unwritten(x: Any, kind: str) -> Array | None:
    """The torch tensor `x` of that type as an array that stays what it is now: torch makes a copy
    for whoever writes to `x` later. None if it is something else, or torch cannot do that."""
    if str(getattr(x, "dtype", None)) != f"torch.{kind}":
        return None
    from handtorch.capture.until_written import until_written
    found = until_written(x)
    return None if found is None else np.asarray(Lent(found.owner, found.address, {
        "shape": tuple(x.shape), "typestr": np.dtype(kind).str, "version": 3}, lasts=False))


@tells_the_callers_line
def lend(x: Any) -> Array:
    """`x`, an array or a torch tensor, for steps to read where it lies instead of copying it.

    A tensor needs this only where torch cannot keep it as it is: if it came from NumPy, was shown
    to it, or lies in the shared memory of a loader's workers. You promise that nothing is written
    to `x` until the last step that was given it, or a part of it, is done: its loss has been read.
    A batch that was filled anew earlier is noticed afterwards, and is an error. Where a copy is
    needed all the same (a GPU with memory of its own, another type, less than 256 KB) it is made.

    >>> loss = step(ht.lend(x), ht.lend(y))
    >>> float(loss) > 0                         # from here on x and y are yours again
    True
    """
    try:
        array = np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError, ValueError) as e:  # on another device, or rows of unequal size
        raise BadInput(f"lending a {type(x).__name__}", why=str(e),
                       fix="a CPU tensor or an array") from e
    if array.dtype.hasobject:
        raise BadInput(f"lending a {type(x).__name__}", why="it holds objects, not numbers",
                       fix="a CPU tensor or an array")
    like = array.__array_interface__
    return np.asarray(Lent(array, like["data"][0], like, lasts=True))
