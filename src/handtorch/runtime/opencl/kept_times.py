"""KeptTimes: how long launches took on one device and driver, from one run to the next.

One JSON file in the user's cache. A time is kept under a hash of the kernel's text and of all that
the launch depends on, so a changed kernel has none. A file is used only if every part of it holds;
anything else is as if it were not there. Removing it has all times taken anew."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from math import isfinite
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.step import Step
from handtorch.kernels.render import render
from handtorch.runtime.opencl.cache import CacheWarning
from handtorch.store.atomic import write_atomically

FORMAT = "handtorch launch times 1"
_KEY = re.compile("[0-9a-f]{32}")


def key_of(step: Step) -> str:
    """Equal for launches that take the same time on one device."""
    told = [render((step,)), step.scalars, step.global_size, step.local_size,
            [[o.value.size, o.value.dtype] for o in step.operands]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


class KeptTimes:
    """In nanoseconds, by `key_of`."""

    def __init__(self, spec: DeviceSpec) -> None:
        # A part of a device has the key of the whole, but not its speed.
        self._about = {"format": FORMAT, "device": spec.key, "units": spec.compute_units}
        self.path = knobs.cache_folder() / "times" / f"{spec.key}-{spec.compute_units}.json"
        self._times, self._new = self._read(), dict[str, float]()

    def get(self, key: str) -> float | None:
        return self._new.get(key, self._times.get(key))

    def put(self, key: str, time_ns: float) -> None:
        self._new[key] = time_ns

    def save(self) -> None:
        """What was put is on the disk, beside what others have written there meanwhile; a folder
        that cannot be written costs time later, not the run."""
        if not self._new:
            return
        self._times, self._new = {**self._read(), **self._new}, {}
        told = {**self._about, "times_ns": self._times}
        try:
            write_atomically(self.path, json.dumps(told, sort_keys=True).encode())
        except OSError as e:
            warnings.warn(f"launch times are not kept: {self.path.parent}: {e.strerror}; "
                          "set HANDTORCH_CACHE to a folder that can be written",
                          CacheWarning, stacklevel=2)

    def _read(self) -> dict[str, float]:
        return _times(self.path, self._about)


def _times(path: Path, about: dict[str, Any]) -> dict[str, float]:
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(told, dict) or {k: v for k, v in told.items() if k != "times_ns"} != about:
        return {}
    times = told.get("times_ns")
    if not isinstance(times, dict) or not all(
            _KEY.fullmatch(key) and isinstance(ns, float) and isfinite(ns) and ns >= 0
            for key, ns in times.items()):
        return {}
    return times
