"""Every exception HandTorch raises on purpose, and how it reads.

    HandTorchError
      BadInput             what the user gave cannot be used: a shape, a dtype, an option, a file
      CannotCapture        PyTorch code we cannot turn into a graph
        UnsupportedOp      an operation outside the closed op set
      CannotLower          an operation this device cannot run in this form
      KernelError          an OpenCL kernel did not compile or did not pass its check
      DeviceError          the device, its driver or its memory
        NoDevice           nothing to run on, or no device of that name
        OutOfMemory        the device refused or cannot hold an allocation
      StorageError         a run file, a cache or another file on disk

A message has up to four parts: what happened, why in numbers, the user's own line, and what to try.
"""

from __future__ import annotations


class HandTorchError(Exception):
    """Base of all errors meant for the user; `str()` gives the whole four-part message."""

    def __init__(self, what: str, *, why: str = "", where: str = "", fix: str = "") -> None:
        self.what, self.why, self.where, self.fix = what, why, where, fix
        super().__init__(self.message())

    def message(self) -> str:
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
