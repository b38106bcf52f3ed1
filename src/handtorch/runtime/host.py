"""`ref` and `null`: executors that need no driver.

`ref` computes with NumPy inside the same planned arena, so a wrong plan gives wrong numbers here
too. `null` computes nothing and counts, for guards that must not depend on a machine's mood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from handtorch.dtypes import dtype
from handtorch.errors import DeviceError
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.graph.node import Node, Value
from handtorch.plan.plan import STAGING_IN, STAGING_OUT
from handtorch.program import Program
from handtorch.runtime.device import Array, Counters, LaunchTime, as_held, as_torch, was_closed
from handtorch.runtime.ref.ops import run_node


class HostTicket:
    """Done before it is handed out."""

    def __init__(self, outputs: tuple[Array, ...]) -> None:
        self._outputs = outputs

    def result(self) -> tuple[Array, ...]:
        return self._outputs

    def launch_times(self) -> tuple[LaunchTime, ...]:
        raise DeviceError("launch times", why="this executor has no device clock",
                          fix="run on an OpenCL device")


class HostResident:
    """The arena as byte arrays; `compute` says whether nodes are really run."""

    borrows_from_bytes: int | None = None

    def __init__(self, program: Program, states: Mapping[str, Array], compute: bool) -> None:
        self.program, self._compute, self.counters = program, compute, Counters()
        plan = program.plan
        sizes = dict(enumerate(plan.bank_bytes)) if compute else {}
        sizes |= {STAGING_IN: plan.staging_in_bytes, STAGING_OUT: plan.staging_out_bytes}
        self._banks = {k: np.zeros(n, np.uint8) for k, n in sizes.items()}
        self._states = {s.name: s for s in program.graph.states}
        self._closed = False
        if compute:
            for name in self._states:
                self.write_state(name, states[name])

    def _view(self, value: Value) -> Array:
        place = self.program.plan.places[value.id]
        raw = self._banks[place.bank][place.offset_bytes:place.offset_bytes + value.nbytes]
        return raw.view(dtype(value.dtype).numpy).reshape(value.shape)

    def stage(self) -> tuple[Array, ...]:
        """Fresh arrays: here there is no ring to fill."""
        return tuple(np.zeros(p.value.shape, dtype(p.value.dtype).numpy)
                     for p in self.program.graph.inputs)

    def submit(self, batch: Sequence[Array], *, timed: bool = False, update: bool = True
               ) -> HostTicket:
        self._needs_open()
        graph, program = self.program.graph, self.program
        for port, data in zip(graph.inputs, batch, strict=True):
            np.copyto(self._view(port.value), data, casting="same_kind")
            self.counters.bytes_in += port.value.nbytes
        if self._compute:
            for node in graph.nodes if update else graph.nodes[:program.update_node]:
                self._run(node)
        self.counters.steps += 1
        self.counters.launches += len(program.steps) if update else program.update_step
        self.counters.bytes_out += sum(p.value.nbytes for p in graph.outputs)
        return HostTicket(tuple(self._view(p.value).copy() for p in graph.outputs))

    def _run(self, node: Node) -> None:
        inputs = [self._view(v) for v in node.inputs]
        for value, data in zip(node.outputs, run_node(node, *inputs), strict=True):
            np.copyto(self._view(value), data)

    def read_state(self, name: str) -> Array:
        self._needs_numbers()
        state = self._states[name]
        return as_torch(state, self._view(state.before).copy())

    def write_state(self, name: str, array: Array) -> None:
        self._needs_numbers()
        state = self._states[name]
        np.copyto(self._view(state.before), as_held(state, array))

    def copy_state(self, name: str, source: HostResident) -> None:
        self.write_state(name, source.read_state(name))

    def _needs_open(self) -> None:
        if self._closed:
            raise was_closed()

    def _needs_numbers(self) -> None:
        self._needs_open()
        if not self._compute:
            raise DeviceError("the null executor holds no state", fix="use 'ref' or a device")

    def finish(self) -> None:
        """Nothing is ever under way."""
        self._needs_open()

    def close(self) -> None:
        self._closed = True
        self._banks.clear()


class RefExecutor:
    """NumPy on the host: the reference every device is compared with."""

    rows_alike = False                  # a BLAS has other kernels for one row than for many

    def __init__(self, spec: DeviceSpec = GENERIC) -> None:
        self.spec = spec

    def load(self, program: Program, states: Mapping[str, Array]) -> HostResident:
        return HostResident(program, states, compute=True)


class NullExecutor:
    """Counts launches and bytes; outputs are zeros, and there is no state to read."""

    rows_alike = True

    def __init__(self, spec: DeviceSpec = GENERIC) -> None:
        self.spec = spec

    def load(self, program: Program, states: Mapping[str, Array]) -> HostResident:
        return HostResident(program, states, compute=False)
