"""What a device draws while it works, by its sheet."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.place.sheet import Sheet


@dataclass(frozen=True)
class Draw:
    """What the device draws: watts doing nothing, watts more while it works, joules a byte."""

    idle_w: float
    busy_w: float
    byte_j: float
    how: str

    def total_j(self, seconds: float, moved_bytes: float) -> float:
        return self.idle_w * seconds + self.dynamic_j(seconds, moved_bytes)

    def dynamic_j(self, seconds: float, moved_bytes: float) -> float:
        return self.busy_w * seconds + self.byte_j * moved_bytes


def draw_of(sheet: Sheet, kind: str, cores: float | str) -> Draw | str:
    """With the GPU busy (`kind` gpu), else with so many cores busy (or why that is not known); or
    why it cannot be said."""
    if sheet.idle_w.value is None:
        return sheet.idle_w.source
    parts = [f"idle {sheet.idle_w.value:g} W"]
    if kind == "gpu":
        busy_w, why = sheet.gpu_w.value, sheet.gpu_w.source
        parts.append(f"GPU {busy_w} W more")
    else:
        busy_w = None if isinstance(cores, str) else sheet.cores_w(cores)
        why = cores if isinstance(cores, str) else "the sheet has no [[cores]]"
        parts.append(f"{cores if isinstance(cores, str) else format(cores, '.2f')} cores busy: "
                     f"{busy_w or 0:.2f} W more")
    if busy_w is None:
        return why
    if sheet.memory_j.value is None:
        parts.append("memory not counted")
    else:
        parts.append(f"memory {sheet.memory_j.value * 1e12:g} pJ a byte")
    return Draw(sheet.idle_w.value, busy_w, sheet.memory_j.value or 0.0,
                f"sheet of {sheet.name}: {', '.join(parts)}")
