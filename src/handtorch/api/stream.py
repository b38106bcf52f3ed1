"""Stream: a recurrent model that takes readings as they come, its states kept on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.given import as_given
from handtorch.api.keep import without_copies
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.graph.node import Port
from handtorch.passes.reading import Along, Held, retimed
from handtorch.passes.stream import Streamed
from handtorch.pipeline import compile_graph
from handtorch.program import Program
from handtorch.runtime.device import Executor
from handtorch.runtime.session import Session, as_array

Array = NDArray[Any]

# Readings of the programs that a call is cut into, the largest that fits first; each is compiled
# when it is first needed. A call of n readings takes at most 7 + 7 + n / 64 of them. Where the bits
# of a reading might depend on how many come with it, readings go one by one (ADR 21).
PIECES = (64, 8, 1)


class Stream:
    """A recurrent model that goes on where the last call ended.

    However a sequence is cut into calls, the results are the same bit for bit: those of the model
    over all readings since the beginning, or the last `reset`.

    >>> stream = ht.stream(recurrent, example=(torch.ones(1, 2, 4),))
    >>> whole = stream(torch.ones(1, 3, 4))
    >>> stream.reset()
    >>> parts = [stream(torch.ones(1, n, 4)) for n in (2, 1)]
    >>> bool((np.concatenate(parts, 1) == whole).all())
    True
    """

    def __init__(self, streamed: Streamed, executor: Executor, captured: Any) -> None:
        self._streamed, self._executor = streamed, executor
        self._kept = streamed.kept
        self._pieces = PIECES if executor.rows_alike and streamed.rows_alike else (1,)
        self._zeros = {s.name: np.zeros(s.before.shape, "f4") for s in streamed.graph.states
                       if s.name in self._kept}
        self._whole = streamed.graph.inputs[0]
        program = compile_graph(streamed.for_readings(1), executor.spec)
        self._one = Session(executor, program, {**captured.states, **self._zeros})
        self._captured = without_copies(captured)
        self._sessions, self._in_use = {1: self._one}, self._one

    @tells_the_callers_line
    def __call__(self, readings: Any) -> Any:
        """What the model gives for these readings, one or more, in the form in which it gives them:
        a result with something for each reading has those of this call, any other is that after
        the last of them. Waits for the device.

        >>> stream(torch.ones(1, 5, 4)).shape
        (1, 5, 2)
        """
        array = self._checked(readings)
        axis, at = self._streamed.axis, 0
        count, tickets = array.shape[axis], []
        while at < count:
            size = next(p for p in self._pieces if p <= count - at)
            piece = array if size == count else np.ascontiguousarray(
                array[(slice(None),) * axis + (slice(at, at + size),)])
            tickets.append(self._switched(size).run((piece,)))
            at += size
        parts = [t.result() for t in tickets]
        return as_given(self._captured.outputs, [
            _joined(held, [p[i] for p in parts], self._streamed.time, port)
            for i, (held, port) in enumerate(zip(self._streamed.outputs,
                                                 self._streamed.graph.outputs, strict=True))])

    def _checked(self, readings: Any) -> Array:
        """As an array of any number of readings, and otherwise like the example."""
        shape = getattr(readings, "shape", None)
        axis, value = self._streamed.axis, self._whole.value
        if shape is None or len(shape) != len(value.shape) or not shape[axis]:
            told = "no array" if shape is None else f"of shape {list(shape)}"
            like = [n if i != axis else "any" for i, n in enumerate(value.shape)]
            raise BadInput(f"readings {told}", why=f"the stream was made for {like}, at least one "
                           "reading", fix="x[:, None] for a single reading, for example")
        port = Port(self._whole.name, retimed(value, Along(axis), self._streamed.time, shape[axis]))
        return as_array(port, readings)

    def _switched(self, size: int) -> Session:
        """The program for so many readings, with the states as the last one left them."""
        if size not in self._sessions:          # its weights: torch's may have changed since
            program = compile_graph(self._streamed.for_readings(size), self._executor.spec)
            names = [s.name for s in program.graph.states]
            self._sessions[size] = Session(self._executor, program, self._one.read(names))
        session = self._sessions[size]
        if session is not self._in_use:
            for name in self._kept:
                session.resident.copy_state(name, self._in_use.resident)
        self._in_use = session
        return session

    @tells_the_callers_line
    def reset(self) -> None:
        """The next reading is the first of a new sequence.

        >>> stream.reset()
        >>> bool(stream.state()["lstm.h0"].any())
        False
        """
        self._in_use = self._one
        for name in self._kept:
            self._in_use.resident.write_state(name, self._zeros[name])

    @tells_the_callers_line
    def state(self) -> dict[str, Array]:
        """Copies of what is kept, by layer: `lstm.h0`, `lstm.c0`, `lstm.h1` and so on.

        >>> sorted(stream.state())
        ['lstm.c0', 'lstm.h0']
        """
        return self._in_use.read(self._kept)

    @property
    def programs(self) -> dict[int, Program]:
        """Those compiled so far, by how many readings they take.

        >>> stream.programs[1].plan.peak_bytes > 0
        True
        """
        return {size: s.program for size, s in sorted(self._sessions.items())}

    @property
    def device_name(self) -> str:
        """The name of the OpenCL device it runs on.

        >>> stream.device_name == step.device_name
        True
        """
        return self._executor.spec.name

    def close(self) -> None:
        """Give the device's memory back; it cannot be called afterwards.

        >>> ht.stream(recurrent, example=(torch.ones(1, 2, 4),)).close()
        """
        for session in self._sessions.values():
            session.close()


def _joined(held: Held, parts: list[Array], time: int, port: Port) -> Array:
    """What the pieces of a call gave, as one result: one behind the other, or the last."""
    if not isinstance(held, Along) or len(parts) == 1:
        return parts[-1]
    # The axis may hold the readings of several sequences, one sequence behind the other.
    shape, axis = port.value.shape, held.axis
    outer = shape[axis] // (time * held.within)
    apart = [p.reshape(*shape[:axis], outer, -1, *shape[axis + 1:]) for p in parts]
    whole = np.concatenate(apart, axis + 1)
    return whole.reshape(*shape[:axis], -1, *shape[axis + 1:])
