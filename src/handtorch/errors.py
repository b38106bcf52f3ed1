"""Every exception HandTorch raises on purpose, and how it reads.

    HandTorchError
      BadInput             what the user gave cannot be used: a shape, a dtype, an option, a file
      CannotCapture        PyTorch code we cannot turn into a graph
        UnsupportedOp      an operation outside the closed op set
      CannotLower          an operation this device cannot run in this form
      NotFinite            a loss that is NaN or infinite
      KernelError          an OpenCL kernel did not compile or did not pass its check
      DeviceError          the device, its driver or its memory
        NoDevice           nothing to run on, or no device of that name
        OutOfMemory        the device refused or cannot hold an allocation
      StorageError         a run file, a cache or another file on disk
        BadFile            a file that was cut or changed, or is not what it should be
      NoInput              batches that do not come: their process died, hangs or failed
      Paused               a step was called while its training is paused

A message has up to four parts: what happened, why in numbers, the user's own line, and what to try.
"""

from __future__ import annotations

import difflib
import linecache
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar


class HandTorchError(Exception):
    """Base of all errors meant for the user; `str()` gives the whole four-part message.

    >>> try:
    ...     step(x)
    ... except ht.HandTorchError as e:
    ...     print(e.what)
    the step takes 2 inputs
    """

    def __init__(self, what: str, *, why: str = "", where: str = "", fix: str = "") -> None:
        self.what, self.why, self.where, self.fix = what, why, where, fix
        super().__init__(self.message())

    def at(self, where: str) -> None:
        """Name the place, unless the one that raised the error knew a better.

        >>> e = ht.HandTorchError("no batch", why="the queue is empty")
        >>> e.at("net.py:12")
        >>> print(e)
        no batch: the queue is empty
          from net.py:12
        """
        self.where = self.where or where
        self.args = (self.message(),)

    def message(self) -> str:
        """What, why, where and what to try, as `str()` gives it.

        >>> print(ht.HandTorchError("no batch", fix="wait").message())
        no batch
          try: wait
        """
        lines = [f"{self.what}: {self.why}" if self.why else self.what]
        if self.where:
            lines.append(f"  from {self.where}")
        if self.fix:
            lines.append(f"  try: {self.fix}")
        return "\n".join(lines)


class BadInput(HandTorchError):
    """What the user gave cannot be used."""


class CannotCapture(HandTorchError):
    """PyTorch code that cannot be turned into a graph."""


class UnsupportedOp(CannotCapture):
    """An operation outside the closed op set; never silently run elsewhere."""


class CannotLower(HandTorchError):
    """An operation that this device cannot run in this form."""


class NotFinite(HandTorchError):
    """A loss that is NaN or infinite; what was trained with it is lost."""


class KernelError(HandTorchError):
    """An OpenCL kernel that did not compile, or gave wrong numbers on this driver."""


class DeviceError(HandTorchError):
    """The device, its driver or its memory."""


class NoDevice(DeviceError):
    """Nothing to run on, or no device of that name."""


class OutOfMemory(DeviceError):
    """The device refused an allocation or cannot hold it."""


class StorageError(HandTorchError):
    """A run file, a cache file or another file on disk."""


class BadFile(StorageError):
    """A file that can be read, and not be used: cut, changed, or another than it should be."""


class NoInput(HandTorchError):
    """A batch that does not come, because the process that makes batches died, hangs or failed."""


class Paused(HandTorchError):
    """A step that was called while it is paused, and that was asked to say so; nothing is lost."""


def nearest(given: str, known: Iterable[str], otherwise: str, like: str = "{}") -> str:
    """What to try instead of a misspelt name: the known one it is close to, in a sentence `like`
    this, and what helps `otherwise`."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(given.lower(), names, 1, 0.7)
    return f"{like.format(names[found[0]])}? {otherwise}" if found else otherwise


P = ParamSpec("P")
R = TypeVar("R")
_OURS = str(Path(__file__).parent)


def tells_the_callers_line(fn: Callable[P, R]) -> Callable[P, R]:
    """An error that knows no place of its own gets the user's line that called `fn`.

    None where the caller is our own code, a command or a study, which is nothing to look at."""
    @wraps(fn)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except HandTorchError as e:
            caller = sys._getframe(1)
            file, line = caller.f_code.co_filename, caller.f_lineno
            if not file.startswith(_OURS):
                text = linecache.getline(file, line).strip()
                e.at(f"{Path(file).name}:{line}  {text}".rstrip())
            raise
    return told
