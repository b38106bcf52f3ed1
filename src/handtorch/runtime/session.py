"""Session: a resident program behind names and checked batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from handtorch.errors import BadInput
from handtorch.graph.node import Port
from handtorch.program import Program
from handtorch.runtime.device import Array, Executor, Ticket

# What the host may hand over for each type; labels come as int64 from PyTorch.
_ACCEPTED = {"f32": ("float32",), "i32": ("int32", "int64"), "u32": ("uint32",), "bool": ("bool",)}
_INT32 = np.iinfo(np.int32)


class Session:
    """Holds the state on the device until it is closed or dropped."""

    def __init__(self, executor: Executor, program: Program, states: Mapping[str, Array]) -> None:
        self.program, self.executor = program, executor
        self.resident = executor.load(program, states)

    def run(self, batch: Sequence[Any], *, timed: bool = False) -> Ticket:
        """Check the batch and submit one step; returns before it is done."""
        ports = self.program.graph.inputs
        if len(batch) != len(ports):
            raise BadInput(f"the step takes {len(ports)} inputs", why=f"{len(batch)} were given",
                           fix=", ".join(f"{p.name}: {p.value}" for p in ports))
        arrays = [as_array(p, x) for p, x in zip(ports, batch, strict=True)]
        return self.resident.submit(arrays, timed=timed)

    def read(self, names: Sequence[str]) -> dict[str, Array]:
        return {n: self.resident.read_state(n) for n in names}

    def close(self) -> None:
        self.resident.close()


def as_array(port: Port, x: Any) -> Array:
    """`x`, a NumPy array or torch tensor, as the array the port takes; refuses what differs."""
    try:
        array = np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError, ValueError) as e:  # on another device, or rows of unequal size
        raise BadInput(f"input {port.name}", why=str(e), fix="give a CPU tensor or an array") from e
    accepted = _ACCEPTED[port.value.dtype]
    if array.shape != port.value.shape or array.dtype.name not in accepted:
        raise BadInput(
            f"input {port.name} is {array.dtype.name}{list(array.shape)}",
            why=f"the step was made for {_kind(port)}",
            fix="give batches like the example, or make another step for this shape")
    if array.dtype.name == "int64" and array.size:
        least, most = int(array.min()), int(array.max())
        if least < _INT32.min or most > _INT32.max:     # would become another, valid number
            raise BadInput(f"input {port.name} holds numbers from {least} to {most}",
                           why=f"the device has 32 bits for them, {_INT32.min} to {_INT32.max}")
    return array


def _kind(port: Port) -> str:
    return f"{' or '.join(_ACCEPTED[port.value.dtype])}{list(port.value.shape)}"
