"""A step captured twice, for a whole batch and for a part of it: what `accumulate` needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from handtorch.errors import BadInput
from handtorch.passes.accumulate import MicroBatched, micro_batched, rows_to_compare


def in_parts(capture: Callable[[Sequence[Any]], Any], example: Sequence[Any], parts: int
             ) -> tuple[Any, MicroBatched]:
    """The capture of one part, and its graph with gradients added up over `parts`."""
    from handtorch.capture.checks import checked_example
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise BadInput(f"accumulate={parts!r}", why="it is the number of micro-batches of a batch",
                       fix="a whole number, 1 or more")
    batch = checked_example(example)
    rows = _rows(batch, parts)
    if rows % parts:
        near = [k for k in range(1, rows + 1) if rows % k == 0]
        raise BadInput(f"accumulate={parts} of a batch of {rows} rows",
                       why="its micro-batches would not be of one size",
                       fix=f"one of {', '.join(map(str, near))}; or another batch")
    few = rows_to_compare(rows, parts)
    small = capture([x[[i % rows for i in range(few)]] for x in batch])
    large = capture(batch)
    return small, micro_batched(large.graph, small.graph, parts)


def _rows(batch: Sequence[Any], parts: int) -> int:
    """The length of the first axis of every input."""
    first = {tuple(x.shape[:1]) for x in batch}
    if len(first) != 1 or () in first:
        shapes = ", ".join(str(list(x.shape)) for x in batch)
        raise BadInput(f"accumulate={parts} of a batch of shapes {shapes or 'none'}",
                       why="it is cut along the first axis, which must be there and of one length "
                           "in all inputs",
                       fix="what all rows share as a buffer of the model")
    ((rows,),) = first
    return int(rows)
