"""How long each core was in which idle state.

Form: Documentation/admin-guide/pm/cpuidle.rst of the Linux kernel. A state's time is added when the
core leaves it. In a virtual machine the guest's states say nothing of what the core does: the host
decides that. There, and where the counts cannot be true, this family is absent and says why."""

from __future__ import annotations

import re
from pathlib import Path

from handtorch.meters.file import hint, there, within
from handtorch.meters.parse import count, plain
from handtorch.meters.reading import Entry, gather, lacking, nothing, single
from handtorch.meters.signal import SLOW_NS, Found, Signal

METER = "cpuidle"
_GUEST_DRIVERS = ("haltpoll",)          # the idle driver of KVM guests
_SLACK = 1.02                           # boot begins to count idle time before the uptime


def find(root: Path) -> Found:
    """One counter for each state of each core, where these can be believed."""
    home = root / "sys/devices/system/cpu"
    cores = [core for core in within(home, "cpu[0-9]+") if there(core / "cpuidle")]
    states = {core.name: within(core / "cpuidle", "state[0-9]+") for core in cores}
    if not cores:
        return lacking(METER, root, home, "cpuN/cpuidle")
    for core in cores:
        if not states[core.name]:
            return lacking(METER, root, core / "cpuidle", "state")
    if why := _guest(root) or _unbelievable(root, states):
        return nothing(METER, why)
    return gather(METER, [
        _entry(root, core, state) for core, inside in states.items() for state in inside
    ])  # fmt: skip


def _entry(root: Path, core: str, state: Path) -> Entry:
    # Two states of one name ("C2_ACPI" on some boards) differ in their number.
    name = f"{plain(state.name)}_{plain(hint(state / 'name') or 'unnamed')}"
    signal = Signal(METER, f"{core}_{name}_s", "counter", core, SLOW_NS, step=1e-6)
    return single(root, state / "time", signal, lambda text: count(text) / 1e6)


def _guest(root: Path) -> str:
    """How this is known to be a virtual machine, or ""."""
    driver = hint(root / "sys/devices/system/cpu/cpuidle/current_driver")
    if driver in _GUEST_DRIVERS:
        return f"the idle driver is {driver}: a virtual machine, whose host decides on idle states"
    flags = re.search(r"^flags\s*:(.*)$", hint(root / "proc/cpuinfo"), re.MULTILINE)
    if flags and "hypervisor" in flags[1].split():
        return "a virtual machine: its host decides on idle states, these counts are the guest's"
    if hint(root / "sys/hypervisor/type") or there(root / "proc/device-tree/hypervisor"):
        return "a virtual machine: its host decides on idle states, these counts are the guest's"
    return ""


def _unbelievable(root: Path, states: dict[str, list[Path]]) -> str:
    """Why the counts cannot be true, or "". A count that cannot be read is judged elsewhere."""
    uptime = re.match(r"[0-9]+(\.[0-9]+)?", hint(root / "proc/uptime"))
    total = 0
    for core, inside in states.items():
        try:
            times = [count(hint(state / "time")) for state in inside]
        except ValueError:
            continue
        idle_s = sum(times) / 1e6
        if uptime and idle_s > float(uptime[0]) * _SLACK + 1:
            return f"{core} says it was idle for {idle_s:.0f} s of {float(uptime[0]):.0f} s"
        total += sum(times)
    return "" if total else "no core was ever idle, it says: nobody counts here"
