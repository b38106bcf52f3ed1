"""Promises: whether memory that was lent stayed as it was until its step was done.

A loan rests on a promise: the owner's own (`ht.lend`), or torch's, which cannot see who writes
through an address kept from before. A step that read half of the next batch would train on it
without a word. So a few numbers of each loan are looked at again once its step is done: a batch
that was filled anew differs in them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from handtorch.errors import BadInput
from handtorch.runtime.device import Array

NUMBERS = 64


@dataclass(frozen=True)
class Promise:
    """Of the input `name` of a step."""

    step: int
    name: str
    numbers: Array                           # in the owner's memory
    were: bytes


class Promises:
    """Those of the steps that nobody is known to have waited for, in order."""

    def __init__(self) -> None:
        self._open: deque[Promise] = deque()

    def note(self, step: int, name: str, array: Array) -> None:
        """`array`, without gaps, was lent to a step that begins now."""
        numbers = array.reshape(-1)[::max(1, array.size // NUMBERS)]
        self._open.append(Promise(step, name, numbers, numbers.tobytes()))

    def look(self, step: int) -> None:
        """Compare all that was lent to steps up to this one, which is done; a broken promise is
        told once."""
        while self._open and self._open[0].step <= step:
            promise = self._open.popleft()
            if promise.numbers.tobytes() != promise.were:
                raise BadInput(
                    f"input {promise.name} changed while step {promise.step} was reading it",
                    why="it was lent, and written to before the step was done: its loss and all "
                        "that follows may be wrong",
                    fix="read a loss before filling its batch anew, or give step(x.clone(), ...) "
                        "if it is filled through an address that torch does not know of")
