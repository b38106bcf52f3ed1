"""The launches of a profile as spans, and of what each operation is a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from handtorch.profile.energy.model import Spans
from handtorch.profile.group import Group
from handtorch.record import Launch

NO_LAYER = "(no layer)"


@dataclass(frozen=True)
class Operations:
    """Spans of all steps of a group; by operation its layer and its phase."""

    spans: Spans
    layer: Mapping[str, str]
    phase: Mapping[str, str]


def operation(launch: Launch) -> str:
    """The same name for the same node of every step, and for no other."""
    parts = (launch.layer, launch.op, launch.node and f"#{launch.node.split()[0]}", launch.phase)
    return " ".join(part for part in parts if part)


def operations(group: Group) -> Operations:
    """Every launch of the device, inside its step."""
    names: dict[str, int] = {}
    lanes: dict[str, int] = {}
    layer, phase = dict[str, str](), dict[str, str]()
    steps = {step.id: i for i, step in enumerate(group.steps)}
    rows = []
    for launch, _ in group.launches:
        assert launch.start_ns is not None and launch.end_ns is not None
        name, at = operation(launch), steps[launch.step]
        layer.setdefault(name, launch.layer or NO_LAYER)
        phase.setdefault(name, launch.phase)
        window = group.steps[at]
        start = min(max(launch.start_ns, window.start_ns), window.end_ns)
        end = max(start, min(launch.end_ns, window.end_ns))
        rows.append((names.setdefault(name, len(names)),
                     lanes.setdefault(launch.lane, len(lanes)), at, start, end))
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Operations(
        Spans(tuple(names), *columns, *(np.array([getattr(s, f) for s in group.steps], np.int64)
                                        for f in ("start_ns", "end_ns"))), layer, phase)
