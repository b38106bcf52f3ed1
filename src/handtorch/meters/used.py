"""What one process used between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
