"""lend: a batch whose owner promises to leave it alone, so that no step copies it."""

from __future__ import annotations

from typing import Any

import numpy as np

from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.runtime.device import Array


class Lent:
    """Stands under a read-only array and says that its owner lent the memory."""

    def __init__(self, array: Array) -> None:
        self.array = array                   # keeps the memory alive
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, True)}


@tells_the_callers_line
def lend(x: Any) -> Array:
    """`x`, an array or a torch tensor, for steps to read where it lies instead of copying it.

    You promise that nothing is written to it until the last step that was given it, or a part of
    it, is done: its loss has been read. As with `non_blocking=True` in torch nobody checks that,
    and a batch that is changed earlier trains on whatever is there. Where a copy is needed all the
    same (a GPU with memory of its own, another type, less than 256 KB) it is made.

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
    return np.asarray(Lent(array))
