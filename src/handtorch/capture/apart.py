"""Tracing in a copy of this process, so that what it leaves behind goes with the copy.

A trace loads much of torch and makes many objects that are freed in pieces; glibc and Python keep
the pages between them. `fork` gives a process in which the user's step, models and example are
there without being handed over, and only what was found comes back: pickled, through a pipe that
nobody else has."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

from handtorch.knobs import captures_apart

Found = TypeVar("Found")
MOST_S = 120.0      # a large net takes ten seconds to trace; a silent copy is ended


def in_a_copy(work: Callable[[], Found]) -> Found | None:
    """What `work` gives, done in a copy of this process; None where that is not to be had, and
    where it raised: then it is for the caller to do it here, and to meet the error itself.

    What `work` prints and warns of is told; what else it changes in Python is gone. Not where other
    threads of Python run, whose locks nobody would open in the copy, nor under a debugger."""
    if not _can():
        return None
    _flush()
    reads, writes = os.pipe()
    # An interrupt between here and the next `try` would unwind the caller's code in both processes.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Python warns where a driver has threads. The copy asks none of them for anything.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
    except OSError:                             # no room for another process
        os.close(reads)
        os.close(writes)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return None
    if child == 0:
        os.close(reads)
        _in_the_copy(work, writes)
    os.close(writes)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        with os.fdopen(reads, "rb") as pipe:
            told = pipe.read() if _answers(reads) else b""
        if not told:                            # done already, or caught in a lock of the driver's
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    except BaseException:                       # Ctrl-C, say
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        with suppress(ChildProcessError):       # somebody else has waited for it
            os.waitpid(child, 0)
    found: Found | None = _received(told)
    return found


def _can() -> bool:
    return (captures_apart() and sys.platform == "linux" and threading.active_count() == 1
            and not _is_watched() and not torch.cuda.is_initialized())


def _is_watched() -> bool:
    """By a debugger or coverage, which since Python 3.12 need not be a trace function."""
    tools = getattr(sys, "monitoring", None)
    return sys.gettrace() is not None or (tools is not None and any(
        tools.get_tool(number) for number in (tools.DEBUGGER_ID, tools.COVERAGE_ID)))


def _answers(reads: int) -> bool:
    """Whether the copy says anything within the time it has, or ends."""
    waiting = select.poll()                     # select knows no file beyond the thousandth
    waiting.register(reads, select.POLLIN)
    if waiting.poll(1000 * MOST_S):
        return True
    warnings.warn(f"tracing in a copy of this process gave no answer within {MOST_S:.0f} s; it is "
                  "done here instead. HANDTORCH_CAPTURE=here does so at once", stacklevel=2)
    return False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _in_the_copy(work: Callable[[], Any], writes: int) -> None:
    """Never returns, and finalizes nothing: what is open here belongs to the other process."""
    code = 1
    try:
        gc.disable()                            # a driver's object that is found dead would ask it
        torch.set_num_threads(1)                # the others are in the other process
        with warnings.catch_warnings(record=True) as said:
            found = work()
        warned = [(w.message, w.category, w.filename, w.lineno) for w in said]
        told = pickle.dumps((found, warned), pickle.HIGHEST_PROTOCOL)
        pickle.loads(told)                      # a warning of the user's own class may not
        with os.fdopen(writes, "wb") as pipe:
            pipe.write(told)
        _flush()
        code = 0
    finally:
        os._exit(code)


def _received(told: bytes) -> Any:
    try:
        found, warned = pickle.loads(told)
    except (EOFError, pickle.UnpicklingError):  # it ended before it had told all
        return None
    for message, category, filename, line in warned:        # the copy has filtered them
        warnings.showwarning(message, category, filename, line)
    return found
