"""What every executor offers: `opencl` (the device), `ref` (NumPy, trusted), `null` (counts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import DeviceError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.node import State
from handtorch.program import Program

Array = NDArray[Any]


@dataclass(frozen=True)
class LaunchTime:
    """The four times of one launch on the device's own clock; never compared with the host's."""

    queued_ns: int
    submit_ns: int
    start_ns: int
    end_ns: int


@dataclass
class Counters:
    """What a resident program has done since it was loaded."""

    steps: int = 0
    launches: int = 0
    bytes_in: int = 0
    bytes_borrowed: int = 0        # of those: read where the caller has them, not copied
    bytes_out: int = 0
    blocking_calls: int = 0        # a wait inside a step: none in the steady state
    waits_for_slot: int = 0        # the host ran ahead of the device by the whole staging ring


class Ticket(Protocol):
    """A step on its way."""

    def result(self) -> tuple[Array, ...]:
        """The step's outputs; waits until they are there."""

    def launch_times(self) -> tuple[LaunchTime, ...]:
        """One per launch, if the step was submitted `timed`; waits."""


class Resident(Protocol):
    """One program living on one device with its state."""

    @property
    def counters(self) -> Counters: ...

    @property
    def borrows_from_bytes(self) -> int | None:
        """Inputs of so many bytes are read where they lie if nobody can change them; None: all
        are copied."""

    def stage(self) -> tuple[Array, ...]:
        """The next step's inputs, to be filled by the caller and given to `submit`."""

    def submit(self, batch: Sequence[Array], *, timed: bool = False, update: bool = True
               ) -> Ticket:
        """Run one step on `batch`; returns as soon as everything is queued. Without `update` only
        what runs for each micro-batch: see `Program.update_node`."""

    def read_state(self, name: str) -> Array:
        """A copy, with its axes as torch has them."""

    def write_state(self, name: str, array: Array) -> None:
        """`array` has its axes as torch has them."""

    def copy_state(self, name: str, source: Any) -> None:
        """The state of that name becomes what it is in `source`, another program of the same
        executor that has one like it, after all steps submitted so far; returns at once."""

    def finish(self) -> None:
        """Wait for everything submitted."""

    def close(self) -> None:
        """Give the device's memory back; a closed program refuses to run."""


class Executor(Protocol):
    @property
    def spec(self) -> DeviceSpec: ...

    @property
    def rows_alike(self) -> bool:
        """Whether a row of a product has the same bits whatever the number of rows; where the
        weights are constants, as in inference."""

    def load(self, program: Program, states: Mapping[str, Array]) -> Resident: ...


def as_held(state: State, array: Array) -> Array:
    """torch's `array` as the device holds that state: in its order of axes, without gaps."""
    return np.ascontiguousarray(array.transpose(state.order)) if state.order else array


def as_torch(state: State, array: Array) -> Array:
    """What the device holds of that state as torch has it, without gaps."""
    if not state.order:
        return array
    return np.ascontiguousarray(array.transpose(np.argsort(state.order)))


def was_closed() -> DeviceError:
    """What every executor says of a program that was closed."""
    return DeviceError("this program was closed", fix="make the step again")
