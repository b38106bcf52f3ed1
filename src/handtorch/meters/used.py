"""What one process used between two moments."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import dataclass
from pathlib import Path

from handtorch.errors import BadInput
from handtorch.meters import threads


@dataclass(frozen=True)
class Span:
    """From begin to end by the monotonic clock, and what was used meanwhile."""

    begin_ns: int
    end_ns: int
    cpu_ns: int                     # of this process, all its threads
    device_ns: int | None           # of the OpenCL device, by its own clock; None without one
    resident_bytes: int             # of this process at the end

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    return int(threads.resident_bytes(Path("/proc/self/statm").read_text(encoding="ascii")))


def memory_of_process(name: str) -> int:
    """What Linux says of this process, in bytes: VmRSS now, VmHWM the most so far, VmData what it
    may write to.

    Not `ru_maxrss`: a program inherits that from the process that started it, however large."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise BadInput("the memory of this process", why=f"/proc/self/status: {e.strerror}") from e
    (found,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(found)


def give_back() -> None:
    """What was freed in pieces, by a capture or a compiler, goes back to the system; glibc would
    keep it for itself. Takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)     # of glibc
    if trim is not None:
        trim(0)


def forget_peak() -> None:
    """What was only needed to load is given back, and VmHWM counts from here."""
    gc.collect()
    give_back()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
