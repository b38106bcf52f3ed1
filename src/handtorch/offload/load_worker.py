"""One process that keeps a core, or an OpenCL device, busy for a share of the time.

Started by `load_generator` alone. It takes shares as lines on standard input, says "ready" once and
answers the line "used" with what it has used so far. Three things end it, whatever goes wrong: the
deadline, the end of its input, and a timer of the kernel that kills it even inside a driver.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST_OWED_PERIODS = 4               # what a starved worker may catch up with; the rest is forgiven
_LAUNCH_S = 0.0003


@dataclass(frozen=True)
class Asked:
    """What the parent wants: as JSON in the only argument."""

    limit_s: float
    period_s: float
    seed: int
    core: int | None = None
    device: str | None = None


@dataclass(frozen=True)
class Burner:
    """`burn` works for a little; `used_s` is what has been used by now, never falling."""

    burn: Callable[[], None]
    used_s: Callable[[], float]


def on_a_core() -> Burner:
    def burn() -> None:
        for _ in range(40):
            pass
    return Burner(burn, time.process_time)


def on_a_device(label: str) -> Burner:
    """Short launches. A device that is the host's CPU uses CPU time; another has its own clock."""
    from handtorch.kernels.roofline import fma_step
    from handtorch.runtime.opencl.bare import BareSteps
    from handtorch.runtime.opencl.context import OpenCLContext
    from handtorch.runtime.opencl.discover import choose

    on = OpenCLContext(choose(label))
    loops = 64
    while True:                     # as many rounds as make a short launch on this device
        bare = BareSteps(on, (fma_step(on.spec, loops),), {})
        bare.times()
        (launch,) = bare.times()
        taken_s = (launch.end_ns - launch.start_ns) / 1e9
        if taken_s > _LAUNCH_S / 2 or loops > 1 << 22:
            break
        bare.close()
        loops *= 2
    if on.spec.kind == "cpu":
        def burn() -> None:
            bare.enqueue()
            bare.finish()
        return Burner(burn, time.process_time)
    spent = [0.0]

    def timed() -> None:
        spent[0] += sum(t.end_ns - t.start_ns for t in bare.times()) / 1e9
    return Burner(timed, lambda: spent[0])


class Pace:
    """How much should have been used by when; what cannot be had is forgiven, not saved up."""

    def __init__(self, period_s: float) -> None:
        self.share, self._period_s = 0.0, period_s
        self._since_s = self._base_s = 0.0

    def set(self, share: float, now_s: float, used_s: float) -> None:
        self.share, self._since_s, self._base_s = share, now_s, used_s

    def due_s(self, at_s: float, used_s: float) -> float:
        """The total that shall have been used at `at_s`."""
        due = self._base_s + self.share * (at_s - self._since_s)
        most = used_s + MOST_OWED_PERIODS * self._period_s * self.share
        if due > most:
            self.set(self.share, at_s, most)
            return most
        return due


def hold(asked: Asked, burner: Burner, say: Callable[[str], None]) -> None:
    """Until the deadline or the end of input, use the share last asked for."""
    draw = random.Random(asked.seed)
    now = time.monotonic()
    end, due, pace = now + asked.limit_s, now, Pace(asked.period_s)
    while (now := time.monotonic()) < end:
        ready, _, _ = select.select([0], [], [], max(0.0, min(due, end) - now))
        if ready:
            if not (text := os.read(0, 4096)):
                return
            for line in text.decode().split():      # a line is written at once, and so read
                if line == "used":
                    say(f"{burner.used_s():.9f} {time.monotonic():.9f}")
                else:
                    pace.set(float(line), time.monotonic(), burner.used_s())
                    due = time.monotonic()
            continue
        # Periods of random length: a call must not keep time with them.
        if not pace.share:
            due = end               # nothing to do until the next line
            continue
        due = max(due, now - asked.period_s) + asked.period_s * draw.uniform(0.5, 1.5)
        target = pace.due_s(due, burner.used_s())
        while burner.used_s() < target and time.monotonic() < due:
            burner.burn()


def main(text: str) -> None:
    asked = Asked(**json.loads(text))
    # The default action of SIGALRM ends the process, in Python or not; the CPU limit likewise.
    signal.setitimer(signal.ITIMER_REAL, asked.limit_s + 1)
    most = int(asked.limit_s) * (os.cpu_count() or 1) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})
    private: Any = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                   # what a driver prints must not look like an answer

    def say(line: str) -> None:
        private.write(line + "\n")
        private.flush()

    burner = on_a_core() if asked.device is None else on_a_device(asked.device)
    say("ready")
    hold(asked, burner, say)


if __name__ == "__main__":
    main(sys.argv[1])
