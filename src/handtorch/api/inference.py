"""Inference: a model compiled for one batch shape."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from handtorch.api.given import as_given
from handtorch.api.keep import save_inference
from handtorch.errors import tells_the_callers_line
from handtorch.program import Program
from handtorch.runtime.describe import describe
from handtorch.runtime.session import Session


class Inference:
    """A model compiled for one batch shape; calling it gives NumPy arrays."""

    def __init__(self, session: Session, captured: Any) -> None:
        self._session, self._captured = session, captured

    @property
    def program(self) -> Program:
        return self._session.program

    @tells_the_callers_line
    def __call__(self, *batch: Any) -> Any:
        """What the model gives for this batch: one array, a tuple or a dict of them."""
        return as_given(self._captured.outputs, self._session.run(batch).result())

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str]) -> None:
        """`path` holds the model with its weights; `ht.load` gives it on any device, without
        torch."""
        names = [s.name for s in self.program.graph.states]
        save_inference(Path(path), self._captured, self._session.read(names))

    def close(self) -> None:
        self._session.close()

    def __repr__(self) -> str:
        return describe(self.program, self._session.executor.spec)
