"""Gate: what may hold a step back, or be done, between two steps."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from handtorch.errors import BadInput, Paused


class Gate:
    """Stands before every step. Until something is asked of it, `attended` is False, which is all
    that a step looks at.

    `shut` and `open` may be called from any thread and from a signal handler, also from one that
    interrupts the waiting itself: SimpleQueue is made for that, while locks, and events that are
    made of them, are not."""

    def __init__(self) -> None:
        self.attended = False
        self.waiting = False                     # a step stands here, and the device is idle
        self._shut = self._raises = False
        self._while: Callable[[], object] | None = None
        self._every_s, self._work = 0.0, _nothing
        self._calls: SimpleQueue[None] = SimpleQueue()

    def shut(self, *, raises: bool) -> None:
        self._raises = raises
        self._shut = self.attended = True

    def open(self) -> None:
        self._shut = False
        self._call()

    def hold_while(self, condition: Callable[[], object] | None, every_s: float) -> None:
        if condition is not None and not callable(condition):
            raise BadInput(f"a condition that is a {type(condition).__name__}",
                           why="it is asked before every step", fix="a function without arguments")
        if not every_s > 0:
            raise BadInput(f"every_s={every_s!r}", why="it is the time between two questions")
        self._while, self._every_s = condition, every_s
        self.attended = True
        self._call()

    def do_before_each(self, work: Callable[[], None] | None) -> None:
        """From now on `work` is done before every step; None: nothing."""
        self._work, self.attended = work or _nothing, True

    def passing(self, finish: Callable[[], None]) -> None:
        """Returns when nothing holds the step back. What is under way is finished first, so that
        the device is idle meanwhile."""
        self._work()
        if not self._holds():
            return
        finish()
        try:
            self.waiting = True
            while self._holds():
                if self._shut and self._raises:
                    raise Paused("the step is paused", why="pause(raises=True) was called",
                                 fix="resume(), then the same batch again")
                self._wait(None if self._shut else self._every_s)
        finally:
            self.waiting = False

    def _call(self) -> None:
        """Who waits looks again. Who begins to wait just now looks after it has said so."""
        if self.waiting and self._calls.empty():
            self._calls.put(None)

    def _holds(self) -> bool:
        return self._shut or (self._while is not None and bool(self._while()))

    def _wait(self, timeout_s: float | None) -> None:
        try:
            self._calls.get(timeout=timeout_s)
        except Empty:
            return


def _nothing() -> None:
    return


@contextmanager
def handled(handlers: dict[int, Callable[[], None]]) -> Iterator[None]:
    """Signals call these, as long as this is entered; afterwards they do what they did before."""
    before: dict[int, Any] = {}
    try:
        try:
            for number, handler in handlers.items():
                before[number] = signal.signal(number, lambda *_, handler=handler: handler())
        except (ValueError, OSError) as e:       # not the main thread, or no such signal
            raise BadInput(f"signal {number}", why=str(e),
                           fix="from the main thread; pause() and resume() from any") from e
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
