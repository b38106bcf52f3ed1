"""Loss: a result on its way, and a look at those that are not finite."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handtorch.errors import BadInput, DeviceError, NotFinite, tells_the_callers_line
from handtorch.runtime.device import Ticket
from handtorch.runtime.session import Session

Array = NDArray[Any]


class Loss:
    """A result on its way: `float(loss)` waits for the step that makes it.

    A number that is NaN or infinite is refused there, with what is known of its cause, unless the
    step was made with `check_finite=False`; `numpy()` and `print` give it as it is.

    >>> loss = step(x, y)                           # enqueued
    >>> float(loss) > 0                             # waits
    True
    """

    def __init__(self, ticket: Ticket, index: int, name: str, step: int, watch: Watch | None
                 ) -> None:
        self.ticket, self._index, self._watch = ticket, index, watch
        self._name, self._step = name, step

    def numpy(self) -> Array:
        """The result as it is, whatever its shape, NaN too; waits for its step.

        >>> step(x, y).numpy().shape
        ()
        """
        return self.ticket.result()[self._index]

    @tells_the_callers_line
    def __float__(self) -> float:
        array = self.numpy()
        if array.size != 1:
            raise BadInput(f"a result of shape {list(array.shape)} as one number",
                           why=f"it holds {array.size}", fix="`.numpy()` gives all of it")
        number = float(array.reshape(()))
        if self._watch is not None:
            self._watch.saw(number, self._name, self._step)
        return number

    @tells_the_callers_line
    def item(self) -> float:
        """As `float(loss)`.

        >>> step(x, y).item() > 0
        True
        """
        return float(self)

    @tells_the_callers_line
    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    @tells_the_callers_line
    def _not_yet(self, *_: Any) -> Any:
        raise BadInput("a loss in arithmetic",
                       why="it is on its way, and its number must be waited for",
                       fix="float(loss), now and then; or compute it in the step and return it")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _not_yet
    __lt__ = __le__ = __gt__ = __ge__ = _not_yet

    @tells_the_callers_line
    def backward(self, *_: Any, **__: Any) -> None:
        """Refused: the step has gone backward already.

        >>> step(x, y).backward()
        Traceback (most recent call last):
        handtorch.errors.BadInput: backward() on what a step gave: the step has gone ...
        """
        raise BadInput("backward() on what a step gave",
                       why="the step has gone backward and updated the weights already",
                       fix="leave it out, and optimizer.step() too")

    def __repr__(self) -> str:
        array = self.numpy()
        return f"Loss({float(array.flat[0]):.6g})" if array.size == 1 else (
            f"Loss({list(array.shape)})")


class Watch:
    """Looks at the losses that are read; one that is not finite is refused, with what the device
    can tell. Costs nothing as long as nobody reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: dict[str, tuple[int, float]] = {}      # the newest finite one that was read

    def saw(self, number: float, name: str, step: int) -> None:
        if isfinite(number):
            self._last[name] = max(self._last.get(name, (0, 0.0)), (step, number))
            return
        before = [x for x in [self._last.get(name)] if x is not None and x[0] < step]
        raise NotFinite(
            f"{name} of step {step} is {number}",
            why="; ".join([f"the last finite one that was read is {before[0][1]:.6g} of step "
                           f"{before[0][0]}" if before else "no finite one was read before it",
                           *self._weights()]),
            fix="a lower learning rate, or clip_grad_norm_; a look for NaN in the batch; "
                "train_step(..., check_finite=False) or .numpy() to go on regardless")

    def _weights(self) -> list[str]:
        """What has become of the weights by now. Waits for the device: there is no hurry."""
        held = [s for s in self._session.program.graph.states
                if s.role in ("parameter", "buffer") and s.before.dtype == "f32"]
        try:
            bad = [s.name for s in held
                   if not np.isfinite(self._session.resident.read_state(s.name)).all()]
        except DeviceError:                                 # closed meanwhile: nothing to look at
            return []
        first = f", the first being {bad[0]}" if bad else ""
        return [f"of {len(held)} weights and buffers {len(bad)} are not finite now{first}"]


# What a step gives back: as the user's function does, one, several by place or by name.
Losses = Loss | tuple[Loss, ...] | dict[str, Loss] | None
