"""Inference: a model compiled for one batch shape."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.api.given import as_given
from handtorch.api.keep import compiled_here, save_inference
from handtorch.api.state import checked_weights, write_states
from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.program import Program
from handtorch.runtime.describe import describe
from handtorch.runtime.epoch import batch_rows
from handtorch.runtime.session import Session
from handtorch.store.programs import Built

Array = NDArray[Any]


class Inference:
    """A model compiled for one batch shape; calling it gives NumPy arrays.

    >>> infer = ht.inference(model, example=(x,))
    >>> "2 launches a step on" in str(infer)
    True
    """

    def __init__(self, session: Session, captured: Any, carried: tuple[Built, ...] = ()) -> None:
        self._session, self._captured, self._carried = session, captured, carried

    @property
    def program(self) -> Program:
        """The steps that were compiled, their places in memory and their source.

        >>> infer.program.plan.peak_bytes > 0
        True
        """
        return self._session.program

    @property
    def session(self) -> Session:
        """The resident program behind names and checked batches; `ht.profile` listens there.

        >>> [port.name for port in infer.session.graph.inputs]
        ['x']
        """
        return self._session

    @tells_the_callers_line
    def __call__(self, *batch: Any) -> Any:
        """What the model gives for this batch: one array, a tuple or a dict of them.

        >>> infer(x).argmax(1).shape
        (8,)
        """
        return as_given(self._captured.outputs, self._session.run(batch).result())

    @property
    def device_name(self) -> str:
        """The name of the OpenCL device it runs on, as its driver gives it.

        >>> infer.device_name == step.device_name
        True
        """
        return self._session.executor.spec.name

    @tells_the_callers_line
    def over(self, *arrays: Any) -> tuple[Array, ...]:
        """What the model gives for all rows of whole arrays in memory, batch after batch.

        The last batch is filled up with its last row, which counts for nothing; so rows must not
        depend on one another, as they do not in a model in eval mode.

        >>> (scores,) = infer.over(np.ones((21, 4), "f4"))
        >>> scores.shape
        (21, 2)
        """
        ports, size = self.program.graph.inputs, batch_rows(self.program.graph.inputs)
        given = [np.asarray(x) for x in arrays]
        counts = {len(x) if x.ndim else 0 for x in given}
        if len(given) != len(ports) or len(counts) != 1 or 0 in counts:
            raise BadInput(f"arrays of shapes {', '.join(str(list(x.shape)) for x in given)}",
                           why=f"the model takes {', '.join(p.name for p in ports)}, as many rows "
                               "of each, and at least one")
        if any(p.value.shape[:1] != (size,) for p in self.program.graph.outputs):
            raise BadInput("rows one after the other", why="not every output has a row for each "
                           "of the inputs", fix=f"batches of {size}: model(*batch)")
        pieces = [self._piece([x[at:at + size] for x in given], size)
                  for at in range(0, counts.pop(), size)]
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

    def _piece(self, rows: list[Array], size: int) -> list[Array]:
        count = len(rows[0])
        whole = rows if count == size else [
            np.concatenate([x, np.repeat(x[-1:], size - count, axis=0)]) for x in rows]
        return [result[:count] for result in self._session.run(whole).result()]

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str], *, programs: bool = False) -> None:
        """`path` holds the model with its weights; `ht.load` gives it on any device, without
        torch. `programs` as for a step's.

        >>> infer.save("model.ht")
        >>> ht.load("model.ht")(x).shape
        (8, 2)
        """
        names = [s.name for s in self.program.graph.states]
        compiled = compiled_here(self._session.executor, self.program, self._carried, None
                                 ) if programs else ()
        save_inference(Path(path), self._captured, self._session.read(names), compiled)

    @tells_the_callers_line
    def load_state_dict(self, given: Mapping[str, Any]) -> None:
        """The model has these weights and buffers from now on: arrays or torch tensors, as of a
        torch module's `state_dict()`, a step's, or `ht.read_checkpoint`.

        All of them must be there and fit, or nothing is changed. What only training needs is left
        aside: optimizer state, learning rates, random numbers, the loss's own tensors, the count
        of steps. So is a second name of tied weights, where both name one tensor.

        >>> infer.load_state_dict(model.state_dict())
        """
        write_states(self._session, checked_weights(self._session, given))

    def close(self) -> None:
        """Give the device's memory back; it cannot be called afterwards.

        >>> ht.inference(model, example=(x,)).close()
        """
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)
