"""The life of the process that makes batches ahead of the step; started by `ahead.py` alone.

It ends when it is asked to, when all batches are made, and with its parent, however that ends: a
thread waits for the end of a pipe, which comes with the parent's, and looks who the parent is, as a
process forked from it may keep the pipe open."""

from __future__ import annotations

import mmap
import os
import select
import sys
import threading
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol

from handtorch.errors import HandTorchError, NoInput
from handtorch.zoo.data.dataset import Arrays
from handtorch.zoo.data.messages import BATCH, END, ERROR, LAYOUT, MOST_BYTES, Layout, send

_LOOK_S = 1.0


class Source(Protocol):
    """What batches come from: batch `index` depends on nothing but the index."""

    @property
    def source(self) -> str: ...

    def batch(self, index: int) -> Arrays: ...


def main(told: Mapping[str, Any]) -> None:
    """Makes batches from `first` to before `last` (None: without end) into the slots, in order."""
    told_fd, free_fd, memory_fd = told["told"], told["free"], told["memory"]
    sys.excepthook = _Teller(told_fd)
    threading.Thread(target=_watch, args=(told["life"], told["parent"]), daemon=True).start()
    module, _, function = told["open"].partition(":")
    source: Source = getattr(import_module(module), function)(**told["arguments"])
    index, last, slots = told["first"], told["last"], told["slots"]
    batch = source.batch(index)
    layout = Layout.of(batch)
    memory = _room(memory_fd, layout.slot_bytes * slots)
    send(told_fd, LAYOUT, {"shapes": layout.shapes, "dtypes": layout.dtypes,
                           "source": source.source})
    free = slots
    while True:
        if not free:
            free = len(os.read(free_fd, slots))
            if not free:
                return                      # the end of the pipe: nobody wants more
        slot = (index - told["first"]) % slots
        for place, array in zip(layout.views(memory, slot), batch, strict=True):
            place[...] = array
        send(told_fd, BATCH, index)
        free, index = free - 1, index + 1
        if last is not None and index >= last:
            send(told_fd, END)
            return
        batch = source.batch(index)
        if (now := Layout.of(batch)) != layout:
            raise NoInput(f"batch {index} of {source.source}", why=f"it is {now}, and those before "
                          f"were {layout}", fix="batches of one size")


def _room(fd: int, count: int) -> mmap.mmap:
    """Memory of that size, set aside now: writing to what is not there would end the process."""
    try:
        os.posix_fallocate(fd, 0, count)
        return mmap.mmap(fd, count)
    except OSError as e:
        raise NoInput(f"memory for batches, {count} bytes", why=str(e.strerror),
                      fix="smaller batches, or fewer ahead") from e


def _watch(life: int, parent: int) -> None:
    while True:
        ready, _, _ = select.select([life], [], [], _LOOK_S)
        if ready or os.getppid() != parent:
            os._exit(0)


class _Teller:
    """What nobody caught is told to the parent, as it is: our own errors by their parts."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, kind: type[BaseException], error: BaseException, _: TracebackType | None
                 ) -> None:
        if isinstance(error, BrokenPipeError):
            return                          # the parent is gone or has enough
        if isinstance(error, HandTorchError):
            told = {"class": type(error).__name__, "what": error.what, "why": error.why,
                    "where": error.where, "fix": error.fix}
        else:
            text = "".join(traceback.format_exception(error))[-MOST_BYTES // 8:]
            told = {"class": "", "error": f"{kind.__name__}: {error}"[:2000], "trace": text}
        send(self._fd, ERROR, told)
