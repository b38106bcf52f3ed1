"""Session: a resident program behind names and checked batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import BadInput
from handtorch.graph.node import Graph, Node, Port, Shape
from handtorch.graph.ops.losses import class_sizes
from handtorch.program import Program
from handtorch.runtime.device import Array, Executor, Ticket
from handtorch.runtime.lent import unwritten
from handtorch.runtime.recorder import Recorder

# What the host may hand over for each type; labels come as int64 from PyTorch.
_ACCEPTED = {"f32": ("float32",), "i32": ("int32", "int64"), "u32": ("uint32",), "bool": ("bool",)}
_TAKEN = {kind: tuple(map(np.dtype, names)) for kind, names in _ACCEPTED.items()}
_CONVERTED = {"f32": "x.float(), or astype('float32')", "i32": "x.long(), or astype('int64')",
              "u32": "astype('uint32')", "bool": "x.bool(), or astype(bool)"}
_INT32 = np.iinfo(np.int32)


class Session:
    """Holds the state on the device until it is closed or dropped.

    A `recorder` is told of every step while it is on; it is attached by `profile/`."""

    recorder: Recorder | None = None

    def __init__(self, executor: Executor, program: Program, states: Mapping[str, Array]) -> None:
        self.program, self.executor = program, executor
        self._limits = index_limits(program.graph)
        self.resident = executor.load(program, states)

    @property
    def graph(self) -> Graph:
        """The step as its caller sees it: with the inputs of a whole batch."""
        return self.program.graph

    @property
    def steps(self) -> int:
        """How many have been submitted."""
        return self.resident.counters.steps

    @cached_property
    def _exact(self) -> tuple[tuple[Shape, np.dtype[Any]], ...]:
        """What each input is, if nothing of it has to be converted."""
        return tuple((p.value.shape, np.dtype(dtype(p.value.dtype).numpy))
                     for p in self.graph.inputs)

    def run(self, batch: Sequence[Any], *, timed: bool = False) -> Ticket:
        """Check the batch and submit one step; returns before it is done."""
        if self.recorder is None or not self.recorder.on:
            return self._run(batch, timed)
        call = self.recorder.begin(self.steps)
        ticket = self._run(batch, timed)
        self.recorder.end(call)
        return ticket

    def _run(self, batch: Sequence[Any], timed: bool) -> Ticket:
        return self.resident.submit(self.checked(batch), timed=timed)

    def stage(self) -> tuple[Array, ...]:
        """Arrays for the inputs of the next step, to be filled."""
        return self.resident.stage()

    def checked(self, batch: Sequence[Any]) -> list[Array]:
        """The batch as arrays that the step takes."""
        exact = self._exact
        if len(batch) == len(exact) and all(
                type(x) is np.ndarray and (x.shape, x.dtype) == kind and not limits
                for x, kind, limits in zip(batch, exact, self._limits, strict=True)):
            return list(batch)                  # the usual case, where microseconds count
        ports = self.graph.inputs
        if len(batch) != len(ports):
            raise BadInput(f"the step takes {len(ports)} inputs", why=f"{len(batch)} were given",
                           fix=", ".join(f"{p.name} as {_kind(p)}" for p in ports)
                               + "; a batch that is a tuple as step(*batch)")
        least = self.resident.borrows_from_bytes
        return [as_array(p, x, limits, borrowed=least is not None and p.value.nbytes >= least)
                for p, x, limits in zip(ports, batch, self._limits, strict=True)]

    def read(self, names: Sequence[str]) -> dict[str, Array]:
        return {n: self.resident.read_state(n) for n in names}

    def close(self) -> None:
        self.resident.close()


@dataclass(frozen=True)
class Limit:
    """Numbers of an input that some node has a place for: a class, a row of a table."""

    least: int
    most: int
    besides: int | None           # the number that a loss leaves out
    of: str

    def broken_by(self, array: Array) -> int | None:
        """The first number without a place."""
        outside = array[(array < self.least) | (array > self.most)]
        if self.besides is not None:
            outside = outside[outside != self.besides]
        return int(outside.flat[0]) if outside.size else None


def index_limits(graph: Graph) -> tuple[tuple[Limit, ...], ...]:
    """For each input what the nodes that read it as a class or a row can take. On the device a
    number outside becomes NaN, which says neither where it came from nor which it was."""
    found: dict[int, list[Limit]] = {p.value.id: [] for p in graph.inputs if p.value.dtype == "i32"}
    for node in graph.nodes:
        if node.op in ("reshape", "transpose", "expand") and node.inputs[0].id in found:
            found[node.outputs[0].id] = found[node.inputs[0].id]
        elif (limit := _limit(node)) is not None and node.inputs[1].id in found:
            found[node.inputs[1].id].append(limit)
    return tuple(tuple(dict.fromkeys(found.get(p.value.id, ()))) for p in graph.inputs)


def _limit(node: Node) -> Limit | None:
    """What may stand in the node's second input, if that is an index."""
    line = f" in {node.where.file}:{node.where.line}" if node.where else ""
    if node.op in ("take", "gather"):
        size = node.inputs[0].shape[int(node.number("axis"))]
        return Limit(-size if node.flag("wrap") else 0, size - 1, None, f"the rows it names{line}")
    if node.op in ("nll_loss", "cross_entropy"):
        _, classes, _ = class_sizes(node.inputs[0].shape)
        return Limit(0, classes - 1, int(node.number("ignore")), f"the classes{line}")
    return None


def as_array(port: Port, x: Any, limits: Sequence[Limit] = (), *, borrowed: bool = False) -> Array:
    """`x`, a NumPy array or torch tensor, as the array the port takes; refuses what differs. To be
    `borrowed` it is one that stays as it is, where that can be had without a copy."""
    array = unwritten(x, dtype(port.value.dtype).numpy) if borrowed else None
    if array is None:
        array = _seen(port, x)
    kind, shape = port.value.dtype, port.value.shape
    if array.dtype.kind in "OSUV":
        raise BadInput(f"input {port.name} is a {type(x).__name__}",
                       why=f"the step was made for {_kind(port)}", fix="give a tensor or an array")
    # By name, which takes a while, only what has another order of bytes.
    if array.shape != shape or (array.dtype not in _TAKEN[kind]
                                and array.dtype.name not in _ACCEPTED[kind]):
        raise BadInput(
            f"input {port.name} is {array.dtype.name}{list(array.shape)}",
            why=f"the step was made for {_kind(port)}",
            fix=_CONVERTED[kind] if array.shape == shape else
                "batches like the example (drop_last=True in a DataLoader), or another step for "
                "this shape")
    if limits or array.dtype.itemsize == 8:
        _check_numbers(port, array, limits)
    return array


def _seen(port: Port, x: Any) -> Array:
    try:
        return np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError, ValueError) as e:  # on another device, or rows of unequal size
        raise BadInput(f"input {port.name}", why=str(e),
                       fix=f"a CPU tensor or an array, {_kind(port)}") from e


def _check_numbers(port: Port, array: Array, limits: Sequence[Limit]) -> None:
    if not array.size:
        return
    least, most = int(array.min()), int(array.max())
    for limit in limits:
        if least < limit.least or most > limit.most:
            number = limit.broken_by(array)
            if number is not None:
                raise BadInput(f"input {port.name} holds {number}",
                               why=f"{limit.of} are {limit.least} to {limit.most}"
                                   + (f", and {limit.besides} is left out"
                                      if limit.besides is not None else ""),
                               fix="look at the labels or indices of this batch, or at the size "
                                   "of the layer")
    if least < _INT32.min or most > _INT32.max:         # would become another, valid number
        raise BadInput(f"input {port.name} holds numbers from {least} to {most}",
                       why=f"the device has 32 bits for them, {_INT32.min} to {_INT32.max}",
                       fix="smaller numbers, or float32")


def _kind(port: Port) -> str:
    return f"{' or '.join(_ACCEPTED[port.value.dtype])}{list(port.value.shape)}"
