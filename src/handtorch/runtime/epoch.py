"""Epoch: one pass over arrays in memory, whose rows are gathered where the device reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import Graph, Port
from handtorch.graph.ops.random import seed_words
from handtorch.runtime.device import Array
from handtorch.runtime.session import Limit, as_array, index_limits


class Epoch:
    """Each `next` is a step on the next whole batch, and gives what the step gives.

    Nothing is kept between two of them but the place: to stop early or to call the step in between
    costs nothing, and a batch that was refused comes again."""

    def __init__(self, graph: Graph, given: Sequence[Any], seed: int | None, start: int = 0, *,
                 step: Callable[..., Any], stage: Callable[[], tuple[Array, ...]]) -> None:
        self._step, self._stage = step, stage
        self._size, self._arrays = batch_rows(graph.inputs), whole_arrays(graph, given)
        self._order = order_of(len(self._arrays[0]), seed)
        self._at = self._size * checked_start(start, len(self._arrays[0]) // self._size)

    def __iter__(self) -> Epoch:
        return self

    @tells_the_callers_line
    def __next__(self) -> Any:
        end = self._at + self._size
        if end > len(self._arrays[0]):
            raise StopIteration
        given = self._step(*self._batch(self._at, end))
        self._at = end
        return given

    def _batch(self, start: int, end: int) -> list[Array]:
        if self._order is None:         # views: the step's own copy is the only one
            return [array[start:end] for array in self._arrays]
        rows = self._order[start:end]
        return [_gathered(array, rows, staged)
                for array, staged in zip(self._arrays, self._stage(), strict=True)]


def _gathered(array: Array, rows: Array, staged: Array) -> Array:
    """These rows in `staged`, if NumPy can put them there; else in an array of their own, which
    the step will convert. `take` would copy the whole of an array that is not contiguous, and with
    mode="raise" every batch a second time; a permutation has nothing to clip."""
    if array.dtype != staged.dtype or not (array.flags.c_contiguous and array.flags.aligned):
        return np.asarray(array[rows])
    return np.take(array, rows, axis=0, out=staged, mode="clip")


def batch_rows(ports: Sequence[Port]) -> int:
    """The length of the first axis of every input, which is that of a batch."""
    first = {p.value.shape[:1] for p in ports}
    if len(first) != 1 or () in first:
        names = ", ".join(f"{p.name} {list(p.value.shape)}" for p in ports)
        raise BadInput(f"an epoch of a step whose inputs are {names or 'none'}",
                       why="batches are cut along the first axis, which must be there and of one "
                           "length in all inputs",
                       fix=f"make the batches yourself: {_call('step', ports)}")
    ((rows,),) = first
    return rows


def whole_arrays(graph: Graph, given: Sequence[Any]) -> list[Array]:
    """What was given as arrays, of which every batch of rows is one that the step takes."""
    ports, size = graph.inputs, batch_rows(graph.inputs)
    if len(given) != len(ports):
        raise BadInput(f"the step takes {len(ports)} inputs", why=f"{len(given)} were given",
                       fix=_call("step.epoch", ports, "seed=0"))
    arrays = [_array(p, x) for p, x in zip(ports, given, strict=True)]
    rows = [len(array) for array in arrays]
    if len(set(rows)) > 1:
        raise BadInput(", ".join(f"input {p.name} has {n} rows"
                                 for p, n in zip(ports, rows, strict=True)),
                       why="a batch is the same rows of each", fix="arrays of the same length")
    if rows[0] < size:
        raise BadInput(f"an epoch over {rows[0]} rows", why=f"a batch of this step has {size}",
                       fix=f"more rows, or a step made with an example of at most {rows[0]}"
                           if rows[0] else "arrays that are not empty")
    for port, array, limits in zip(ports, arrays, index_limits(graph), strict=True):
        _check(port, array, size, limits)
    return arrays


def _array(port: Port, x: Any) -> Array:
    """`x` with its rows; what is no array, or has no rows, is refused as a batch would be."""
    try:
        array = np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError, ValueError):
        as_array(port, x)
        raise
    return array if array.ndim else as_array(port, x)


def _check(port: Port, array: Array, size: int, limits: Sequence[Limit]) -> None:
    """The first batch tells shape and type, in the words of a step; then every number counts."""
    as_array(port, array[:size], limits)
    as_array(replace(port, value=replace(port.value, shape=array.shape)), array, limits)


def order_of(rows: int, seed: int | None) -> Array | None:
    """The rows shuffled, the same on every machine for the same seed; None: as they are."""
    if seed is None:
        return None
    seed_words(seed)                    # what is a seed elsewhere is one here
    return np.random.default_rng(seed).permutation(rows)


def checked_start(start: Any, batches: int) -> int:
    """The batch with which to begin; after the last one there is nothing left to do."""
    if type(start) is int and 0 <= start <= batches:
        return start
    raise BadInput(f"an epoch from batch {start!r} on", why=f"it has {batches} of them",
                   fix="how many batches of this epoch are done already, 0 for none")


def _call(function: str, ports: Sequence[Port], *more: str) -> str:
    return f"{function}({', '.join((*(p.name for p in ports), *more))})"
