"""Inference: a model compiled for one batch shape."""

from __future__ import annotations

from typing import Any

from handtorch.api.given import as_given
from handtorch.errors import tells_the_callers_line
from handtorch.program import Program
from handtorch.runtime.describe import describe
from handtorch.runtime.session import Session


class Inference:
    """A model compiled for one batch shape; calling it gives NumPy arrays."""

    def __init__(self, session: Session, outputs: Any) -> None:
        self._session, self._outputs = session, outputs

    @property
    def program(self) -> Program:
        return self._session.program

    @tells_the_callers_line
    def __call__(self, *batch: Any) -> Any:
        """What the model gives for this batch: one array, a tuple or a dict of them."""
        return as_given(self._outputs, self._session.run(batch).result())

    def close(self) -> None:
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)
