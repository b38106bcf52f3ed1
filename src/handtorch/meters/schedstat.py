"""How long tasks ran on each core, in nanoseconds, where the kernel keeps count of it.

Form: Documentation/scheduler/sched-stats.rst of the Linux kernel."""

from __future__ import annotations

import re
from pathlib import Path

from handtorch.meters.file import called, there
from handtorch.meters.parse import count
from handtorch.meters.reading import nothing, table
from handtorch.meters.signal import SLOW_NS, Found, Signal

METER = "schedstat"
_CORE = re.compile(r"cpu[0-9]{1,5}")
# The line of a core has nine counts, the seventh in ns, from version 15 on (Linux 2.6.37).
_VERSIONS = (15, 16, 17)


def find(root: Path) -> Found:
    """One counter for each core that is online now."""
    path = root / "proc/schedstat"
    if not there(path):
        return nothing(METER, f"no {called(root, path)}", "a kernel with CONFIG_SCHEDSTATS")
    return table(METER, root, path, core_run_seconds, lambda core: Signal(
        METER, f"{core}_run_s", "counter", core, SLOW_NS, SLOW_NS, step=1e-9, basis="documented",
    ), "{} is offline")  # fmt: skip


def core_run_seconds(text: str) -> dict[str, float]:
    """By core ("cpu0"), how long tasks ran on it; a task is added when it leaves the core, so a
    core with one busy thread may show nothing for seconds. Raises ValueError."""
    lines = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
    if not lines or lines[0][:1] != ["version"] or len(lines[0]) != 2:
        raise ValueError("does not begin with its version")
    if (version := count(lines[0][1])) not in _VERSIONS:
        raise ValueError(f"is of version {version}, which is not known here")
    found = {}
    for line in lines:
        if line and _CORE.fullmatch(line[0]):
            if len(line) != 10:
                raise ValueError(f"has {len(line) - 1} counts for {line[0][:20]}, not 9")
            found[line[0]] = count(line[7]) / 1e9
    if not found:
        raise ValueError("has no line of a core")
    return found
