"""Gate: what may hold a step back, or be done, between two steps; Pausable: how users say so."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from handtorch.errors import BadInput, Paused, tells_the_callers_line


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


class Pausable:
    """A step that yields to the user of the machine, at the edge between two steps."""

    _gate: Gate

    def pause(self, *, raises: bool = False) -> None:
        """The next call of the step waits until `resume()`, with nothing under way on the device;
        with `raises` it raises `Paused` instead, and its batch was not used.

        Returns at once, from any thread or signal handler; `paused` tells when it has come to it.

        >>> step.pause(raises=True)
        >>> step(x, y)
        Traceback (most recent call last):
        handtorch.errors.Paused: the step is paused: ...
        >>> step.resume()
        """
        self._gate.shut(raises=raises)

    def resume(self) -> None:
        """Undoes `pause()`, from any thread or signal handler.

        >>> step.pause()                            # from a thread of the app, say
        >>> step.resume()
        >>> float(step(x, y)) > 0
        True
        """
        self._gate.open()

    @property
    def paused(self) -> bool:
        """Whether a call of the step waits at this moment: the device is idle, and another thread
        may read the step's state or save it.

        >>> step.paused
        False
        """
        return self._gate.waiting

    def pause_on(self, pause: int, resume: int) -> AbstractContextManager[None]:
        """Inside, the signal `pause` pauses and the signal `resume` resumes, SIGUSR1 and SIGUSR2
        for example; afterwards both do what they did before. For the main thread.

        >>> import signal
        >>> with step.pause_on(signal.SIGUSR1, signal.SIGUSR2):
        ...     loss = step(x, y)
        """
        return handled({pause: self.pause, resume: self.resume})

    @tells_the_callers_line
    def yield_while(self, condition: Callable[[], object] | None, *, every_s: float = 1.0) -> None:
        """Before every step `condition()` is asked; while it is true the step waits as if paused,
        and asks again every `every_s` seconds. None takes it away.

        `step.yield_while(ht.Limits(temperature_c=70, battery=0.2))` rests while the machine is hot
        or its battery low; any other function will do.

        >>> step.yield_while(lambda: False)         # somebody else needs the device
        >>> step.yield_while(None)
        """
        self._gate.hold_while(condition, every_s)
