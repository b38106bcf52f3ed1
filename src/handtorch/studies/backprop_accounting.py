"""Where the time of a step went: kernels, copies, and the rest, in which the host waits.

Pure arithmetic on what was observed, so that it can be asked about event times of any device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from handtorch.runtime.device import LaunchTime


@dataclass(frozen=True)
class Observed:
    """`steps` steps in a row: the host's stamps around them, and every event of the device.

    `host_copy_ns` is what the host copied itself, outside any command, in time of its processor.
    Events lie on the device's clock and are never compared with a stamp, only their lengths."""

    wall_ns: int
    kernels: tuple[LaunchTime, ...]
    copies: tuple[LaunchTime, ...]
    host_copy_ns: int = 0
    steps: int = 1

    def fault(self) -> str:
        """Why these times cannot be believed; empty if they can."""
        for event in (*self.kernels, *self.copies):
            if event.end_ns < event.start_ns:
                return f"an event ends {event.start_ns - event.end_ns} ns before it starts"
        busy = _covered_ns((*self.kernels, *self.copies))
        if busy > self.wall_ns:
            return f"the device was busy for {busy} of {self.wall_ns} ns"
        return ""


@dataclass(frozen=True)
class Split:
    """One step's wall time in three parts that add up to it.

    `wait_ns` is when neither a kernel nor a copy ran: queueing, the driver, waking up, Python."""

    kernel_ns: float
    copy_ns: float
    wait_ns: float

    @property
    def wall_ns(self) -> float:
        return self.kernel_ns + self.copy_ns + self.wait_ns

    @property
    def kernel_share(self) -> float:
        """Of the whole step."""
        return self.kernel_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def moved_share(self) -> float | None:
        """Of kernels and copies together, as a profiler of the device alone sees it; None where
        neither took any time."""
        busy = self.kernel_ns + self.copy_ns
        return self.copy_ns / busy if busy else None


def split(seen: Observed) -> Split:
    """The mean step of those observed.

    What overlaps counts once, for the kernel. A copy by the host may run beside the kernels of
    another step: it counts at most what they leave of the wall time, so `copy_ns` is an upper
    bound of what copying cost."""
    assert not seen.fault(), seen.fault()
    kernel = _covered_ns(seen.kernels)
    busy = _covered_ns((*seen.kernels, *seen.copies))
    by_host = min(seen.host_copy_ns, seen.wall_ns - busy)
    copy = busy - kernel + by_host
    return Split(kernel / seen.steps, copy / seen.steps,
                 (seen.wall_ns - kernel - copy) / seen.steps)


def _covered_ns(events: Iterable[LaunchTime]) -> int:
    """How long at least one of them ran."""
    covered, until = 0, None
    for start, end in sorted((e.start_ns, e.end_ns) for e in events):
        if until is None or start > until:
            covered += end - start
            until = end
        elif end > until:
            covered += end - until
            until = end
    return covered
