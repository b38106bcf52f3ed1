"""A child process that does not outlive its parent."""

from __future__ import annotations

import ctypes
import os
import signal

from handtorch import knobs

_SET_DEATH_SIGNAL = 1                    # PR_SET_PDEATHSIG of linux/prctl.h


def end_with_parent() -> None:
    """Afterwards Linux kills this process when the thread that started it ends, however it ends.

    A kernel that never returns cannot look whether anybody still waits for it: one whose parent
    was killed took a core for good. Elsewhere than on Linux nothing happens."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return
    prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # It may have ended before we asked. Who takes orphans in need not be process 1: containers have
    # others there, and in some of them process 1 is our parent.
    parent = knobs.parent_process()
    if os.getppid() == 1 if parent is None else os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
