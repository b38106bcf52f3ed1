"""Where a step's wall time went: the device's commands, and the gaps between them by cause.

The device is busy where at least one of its commands runs: the union of their intervals. Where two
overlap, the time belongs to the one that started first, so that own times add up to the union.
What is left of the step are gaps. A gap before a command has two parts: until the command was
handed to the driver it is the host's, and what the host did then is its cause; after that it is
the driver's (`launch`). Parts and union add up to the step exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

INPUT = "input"             # the caller had not called: its data, its own code
STAGING = "staging"         # the host checked the batch and copied it in
ENQUEUE = "enqueue"         # the host was still enqueuing, and the device had nothing to do
LAUNCH = "launch"           # the next command was handed over, and had not started
WAKE = "wake"               # all was done, and the host that waited for it had not noticed
PROFILER = "profiler"       # times were read, clocks compared: our own doing
OTHER = "other"
CAUSES = (INPUT, STAGING, ENQUEUE, LAUNCH, WAKE, PROFILER, OTHER)


class Command(NamedTuple):
    """One command of the device; `handed_ns` is when it had been handed over, None: unknown."""

    start_ns: int
    end_ns: int
    handed_ns: int | None


class Action(NamedTuple):
    """What the host did, as the cause of a gap."""

    start_ns: int
    end_ns: int
    cause: str


class Idle(NamedTuple):
    start_ns: int
    end_ns: int
    cause: str


def own_ns(commands: Sequence[tuple[int, int]]) -> list[int]:
    """For each (start, end) the part that no earlier one covers: they add up to the union."""
    own, until = [0] * len(commands), None
    for i in sorted(range(len(commands)), key=lambda i: (*commands[i], i)):
        start, end = commands[i]
        if until is not None:
            start = max(start, until)
        own[i] = max(0, end - start)
        until = end if until is None else max(until, end)
    return own


def busy_ns(commands: Iterable[tuple[int, int]]) -> int:
    """How long at least one of them ran."""
    return sum(own_ns(list(commands)))


def clipped(commands: Iterable[tuple[int, int]], window: tuple[int, int]) -> list[tuple[int, int]]:
    """The same with what lies outside the window cut off; as many as before."""
    first, last = window
    return [(min(max(a, first), last), max(min(b, last), first)) for a, b in commands]


def gaps(window: tuple[int, int], commands: Sequence[Command], host: Sequence[Action]
         ) -> list[Idle]:
    """All time of the window in which no command ran, in order, each part with its cause."""
    found: list[Idle] = []
    actions = sorted(host)
    for start, end, following in _idle(window, commands):
        handed = end
        if following is not None and following.handed_ns is not None:
            handed = min(max(following.handed_ns, start), end)
        elif following is not None:
            handed = start
        found += _host_part(start, handed, actions)
        if handed < end:
            known = following is not None and following.handed_ns is not None
            found.append(Idle(handed, end, LAUNCH if known else OTHER))
    return found


def _idle(window: tuple[int, int], commands: Sequence[Command]
          ) -> Iterator[tuple[int, int, Command | None]]:
    """Each gap with the command that ends it, if one does."""
    at, last = window
    for command in sorted(commands, key=lambda c: c[:2]):
        start = min(command.start_ns, last)
        if start > at:
            yield at, start, command
        at = max(at, min(command.end_ns, last))
    if at < last:
        yield at, last, None


def _host_part(start: int, end: int, actions: Sequence[Action]) -> Iterator[Idle]:
    """Cut where the host's actions begin and end; where it did none, the caller had it."""
    at = start
    for action in actions:
        first, last = max(action.start_ns, at), min(action.end_ns, end)
        if first >= last:
            continue
        if first > at:
            yield Idle(at, first, INPUT)
        yield Idle(first, last, action.cause)
        at = last
    if at < end:
        yield Idle(at, end, INPUT)
