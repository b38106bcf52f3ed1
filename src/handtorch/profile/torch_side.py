"""The same model by torch on the CPU, in the same form: a profile of a function that runs torch."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from handtorch.errors import BadInput, tells_the_callers_line
from handtorch.profile.rows import as_run, write_run
from handtorch.profile.sensing import Sensing
from handtorch.profile.tables import text
from handtorch.record import Clock, Run, RunInfo
from handtorch.record.row import Row

if TYPE_CHECKING:
    from handtorch.baseline.torch_ops import TorchOps


@dataclass
class TorchProfile:
    """A profile while it is taken, and afterwards what was found.

    Inside the `with` block it is called in place of the function: each call is a step.

    >>> with ht.profile(model, name="eager", sensors=False) as run:
    ...     scores = run(x)                     # called in place of `model`
    >>> len(run.run.steps)
    1
    """

    call: Callable[..., Any]
    name: str
    kind: str = "training"
    sensing: Sensing | None = None
    _ops: TorchOps | None = field(default=None, init=False)
    _began: str = field(default="", init=False)
    _began_ns: int = field(default=0, init=False)
    _took_ns: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        try:
            from handtorch.baseline.torch_ops import TorchOps
        except ImportError as e:
            raise BadInput(f"a profile of {self.name}", why=f"torch is not there ({e})",
                           fix="pip install handtorch[torch], or a step of handtorch's own") from e
        self._began = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._ops, self._began_ns = TorchOps(), time.monotonic_ns()
        if self.sensing is not None:
            self.sensing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._took_ns = time.monotonic_ns() - self._began_ns
        if self.sensing is not None:
            self.sensing.stop()

    @tells_the_callers_line
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, its operations recorded.

        >>> with ht.profile(model, sensors=False) as run:
        ...     run(x).shape
        torch.Size([8, 2])
        """
        if self._ops is None or self._took_ns:
            raise BadInput(f"a step of {self.name} outside its profile",
                           fix="call it inside `with ht.profile(function) as run:`")
        with self._ops.step():
            return self.call(*args, **kwargs)

    def rows(self, first_id: int = 0) -> Iterable[Row]:
        """All but the clock; step ids begin at `first_id`.

        >>> with ht.profile(model, sensors=False) as run:
        ...     scores = run(x)
        >>> len(list(run.rows())) > 3
        True
        """
        if self._ops is None or not self._ops.steps:
            raise BadInput("a profile without a step", why="none was run while it was on",
                           fix="with ht.profile(function) as run: run(x, y)")
        made = self._ops.rows(self.name, self.kind, first_id)
        return [row for row in made.all if not isinstance(row, Clock)]

    @property
    def run(self) -> Run:
        """Everything that was recorded, as the rows of a run file.

        >>> with ht.profile(model, name="eager", sensors=False) as run:
        ...     scores = run(x)
        >>> run.run.steps[0].subject
        'eager'
        """
        info = RunInfo(id=uuid.uuid4().hex, command="ht.profile", started_utc=self._began,
                       duration_ns=self._took_ns, status="complete")
        made = self.rows()
        assert self._ops is not None, "it has rows"
        rows = [self._ops.clock, *made]
        if self.sensing is None:
            return as_run(info, rows)
        rows += self.sensing.rows(self.name)
        return as_run(info, [*rows, *self.sensing.worked_out(as_run(info, rows))])

    @tells_the_callers_line
    def table(self) -> str:
        """For a terminal: where the time went.

        >>> with ht.profile(model, name="eager", sensors=False) as run:
        ...     scores = run(x)
        >>> print(run.table())
        eager ...
        """
        return text(self.run)

    @tells_the_callers_line
    def save(self, path: str | os.PathLike[str]) -> None:
        """`path` is a run file with all of it; one that is there is refused.

        >>> with ht.profile(model, sensors=False) as run:
        ...     scores = run(x)
        >>> run.save("eager.htr")
        """
        write_run(self.run, path)
