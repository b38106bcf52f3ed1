"""MicroBatches: a session whose batch is run in parts, with one update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import BadInput, DeviceError
from handtorch.graph.node import Graph, Port
from handtorch.graph.parts import ACCUMULATOR
from handtorch.passes.accumulate import EvenLabels, Join, MicroBatched
from handtorch.program import Program
from handtorch.runtime.device import Array, Executor, LaunchTime, Ticket, as_torch
from handtorch.runtime.ref.ops import run_node
from handtorch.runtime.session import Session


class MicroSession(Session):
    """Its inputs are those of the whole batch. Between two calls all accumulators are zero."""

    def __init__(self, executor: Executor, program: Program, states: Mapping[str, Array],
                 made: MicroBatched) -> None:
        zeros = {s.name: as_torch(s, np.zeros(s.before.shape, dtype(s.before.dtype).numpy))
                 for s in program.graph.states if s.role == ACCUMULATOR}
        super().__init__(executor, program, {**states, **zeros})
        self._made, self._zeros = made, zeros
        self._steps, self._under_way = 0, False
        self._staged: tuple[Array, ...] = ()

    @property
    def graph(self) -> Graph:
        whole = [replace(p, value=replace(p.value, shape=(self._made.rows, *p.value.shape[1:])))
                 for p in self.program.graph.inputs]
        return replace(self.program.graph, inputs=tuple(whole))

    @property
    def steps(self) -> int:
        return self._steps

    def _run(self, batch: Sequence[Any], timed: bool) -> Ticket:
        """Check the whole batch, then submit all parts; returns before they are done, but not
        before the device is at most a few of them behind."""
        arrays = self.checked(batch)
        parts, few = self._made.parts, self._made.rows // self._made.parts
        split = [[a[i * few:(i + 1) * few] for a in arrays] for i in range(parts)]
        for even in self._made.even:
            _check_even(even, self.program.graph.inputs[even.input], split)
        if self._under_way:                 # an interrupt came between two parts
            for name, zeros in self._zeros.items():
                self.resident.write_state(name, zeros)
        self._under_way = True
        tickets = [self.resident.submit(part, timed=timed, update=i == parts - 1)
                   for i, part in enumerate(split)]
        self._steps, self._under_way = self._steps + 1, False
        return MicroTicket(tickets, self._made.joins)

    def stage(self) -> tuple[Array, ...]:
        """Arrays of the host: the device's own places hold a part of the batch each."""
        if not self._staged:
            self._staged = tuple(np.zeros(p.value.shape, dtype(p.value.dtype).numpy)
                                 for p in self.graph.inputs)
        return self._staged


def _check_even(even: EvenLabels, port: Port, split: Sequence[Sequence[Array]]) -> None:
    """A mean of means is the mean if all parts have equally many labels."""
    counts = []
    for part in split:
        labels = part[even.input]
        for node in even.views:
            (labels,) = run_node(node, labels)
        counts.append(int((labels != even.ignore).sum()))
    if len(set(counts)) > 1:
        raise BadInput(
            f"input {port.name} has {', '.join(map(str, counts))} labels other than {even.ignore} "
            "in its micro-batches",
            why="the mean of the batch is the mean of theirs only if they have equally many",
            where=even.where,
            fix="reduction='sum', divided by a number that is the same for every batch; or batches "
                "whose parts have equally many; or no accumulate")


class MicroTicket:
    """All parts of a batch on their way."""

    def __init__(self, parts: Sequence[Ticket], joins: Sequence[Join]) -> None:
        self.parts, self._joins = parts, joins

    def result(self) -> tuple[Array, ...]:
        each = [part.result() for part in self.parts]
        return tuple(joined(join, [e[i] for e in each]) for i, join in enumerate(self._joins))

    def launch_times(self) -> tuple[LaunchTime, ...]:
        return tuple(t for part in self.parts for t in part.launch_times())

    def movement(self) -> Any:
        raise DeviceError("data movement of a batch in micro-batches", why="it is kept by part",
                          fix="a step without accumulate")


def joined(join: Join, parts: Sequence[Array]) -> Array:
    """The batch's result from those of its parts; floats are added up in float64."""
    if join.kind == "last":
        whole = parts[-1]
    elif join.kind == "sum":
        wide = np.float64 if parts[0].dtype.kind == "f" else np.int64
        whole = np.asarray(np.sum(np.stack(parts), axis=0, dtype=wide))
    else:
        shape = parts[0].shape
        before, after = shape[:join.axis], shape[join.axis + 1:]
        split = [p.reshape(*before, join.outer, shape[join.axis] // join.outer, *after)
                 for p in parts]
        whole = np.concatenate(split, axis=len(before) + 1).reshape(*before, -1, *after)
    return np.asarray(whole if join.scale == 1 else whole * join.scale, parts[0].dtype)
