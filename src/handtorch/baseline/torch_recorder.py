"""What torch itself records of the operations that run, on the host's clock.

Its observer takes the stamps in C++, so that no Python runs between two operations. Under a hook in
Python steps took a tenth longer, and small operations on memory were measured too long. This is the
recorder of the autograd profiler of old, which starts nothing of its own and prints nothing;
torch.profiler has another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._C._profiler import (
    ProfilerConfig,
    ProfilerState,
    _ExperimentalConfig,
    _RecordFunctionFast,
)

from handtorch.errors import BadInput

_BEGIN, _END = "handtorch: begin", "handtorch: end"
_NOT_OPERATIONS = ("autograd", "profiler")      # namespaces of torch's own marks
_FUNCTION = 0                                   # the scope of operations; autograd's nodes have 1
_TRIES = 4
_now = time.monotonic_ns


class Recorded(NamedTuple):
    """An operation, the shape of its first argument (none if that is no tensor), and when."""

    name: str
    shape: tuple[int, ...]
    start_ns: int
    end_ns: int
    inside: tuple[Recorded, ...]                # what it called; of those no more is kept


class Anchor(NamedTuple):
    """A mark in the record, and between which readings of the host's clock it was made."""

    name: str
    before_ns: int
    after_ns: int

    @property
    def at_ns(self) -> float:
        return (self.before_ns + self.after_ns) / 2

    @property
    def error_ns(self) -> float:
        return (self.after_ns - self.before_ns) / 2


class Recording:
    """What a `with recording()` block brought: full once the block has ended."""

    def __init__(self) -> None:
        self.ops: tuple[Recorded, ...] = ()
        self.error_ns = 0                       # how far off a stamp can be


@contextmanager
def recording() -> Iterator[Recording]:
    """Afterwards the block's outermost operations on this thread are in `ops`, in order.

    Where the block raises, they are not."""
    if torch._C._autograd._profiler_enabled():
        raise BadInput("watching torch's operations", why="a profiler of torch's is on",
                       fix="end that one first")
    found = Recording()
    torch._C._autograd._enable_profiler_legacy(ProfilerConfig(
        ProfilerState.CPU, True, False, False, False, False, _ExperimentalConfig()))
    threads: list[list[Any]] = []
    try:
        begin = _mark(_BEGIN)
        yield found
        end = _mark(_END)
    finally:
        threads = torch._C._autograd._disable_profiler_legacy()
    (events,) = (e for e in threads if any(x.name() == begin.name for x in e[:3 * _TRIES]))
    found.ops = tuple(_read(events, begin, end))
    found.error_ns = int(max(begin.error_ns, end.error_ns)) + 1


def _mark(name: str) -> Anchor:
    """The narrowest of a few: another program may get its turn in the middle of one."""
    return min((_one_mark(f"{name} {i}") for i in range(_TRIES)), key=lambda a: a.error_ns)


def _one_mark(name: str) -> Anchor:
    before_ns = _now()
    with _RecordFunctionFast(name):
        return Anchor(name, before_ns, _now())


def _read(events: list[Any], begin: Anchor, end: Anchor) -> Iterator[Recorded]:
    """The record's clock is another one: it is laid on the host's at both marks."""
    first = events[0]
    at_us = {e.name(): first.cpu_elapsed_us(e) for e in events
             if e.name() in (begin.name, end.name)}
    rate = (end.at_ns - begin.at_ns) / (at_us[end.name] - at_us[begin.name])
    open_: list[tuple[Any, bool, list[Recorded]]] = []

    def ns(event: Any) -> int:
        return int(begin.at_ns + rate * (first.cpu_elapsed_us(event) - at_us[begin.name]))
    for event in events:
        if event.kind() == "push":
            open_.append((event, _is_operation(event), []))
        elif event.kind() == "pop" and open_:
            pushed, is_op, inside = open_.pop()
            depth = sum(op for _, op, _ in open_)
            if not is_op or depth > 1:
                continue
            done = Recorded(pushed.name(), _first_shape(pushed), ns(pushed), ns(event),
                            tuple(inside))
            if depth == 0:
                yield done
            else:
                next(kept for _, op, kept in reversed(open_) if op).append(done)


def _is_operation(event: Any) -> bool:
    space, is_qualified, _ = event.name().partition("::")
    return bool(is_qualified) and event.scope() == _FUNCTION and space not in _NOT_OPERATIONS


def _first_shape(event: Any) -> tuple[int, ...]:
    shapes = event.shapes()
    return tuple(shapes[0]) if shapes else ()
