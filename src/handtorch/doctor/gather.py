"""All that the doctor's file holds, asked of the rooms that know it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from handtorch import knobs, selftest
from handtorch.baseline.fair import moment, share_of_others
from handtorch.doctor.benchmark import NAMES, benchmark
from handtorch.doctor.file import FORMAT, VERSION
from handtorch.doctor.private import clean, cleaned
from handtorch.errors import HandTorchError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.meters.search import find_all
from handtorch.pipeline import tuned_file, with_tuned
from handtorch.record import Result
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.setting import machine, software

PACKAGES = ("handtorch", "numpy", "pyopencl", "torch", "intel-opencl-rt",
            "pocl-binary-distribution", "safetensors", "starlette")
_MOST_LISTED = 20           # of variants that failed; a file stays small
_NAMES = ("name", "vendor", "platform", "platform_version", "device_version", "opencl_c", "driver",
          "kind")
_LONG = ("extensions",)
_IDLE = "a simulator: it is tested when it is named by --device"


@dataclass(frozen=True)
class Asked:
    """What to do with devices; a simulator is neither tested nor measured unless `named`."""

    named: bool = False
    test: bool = True
    measure: bool = True


def gather(devices: Sequence[FoundDevice], chosen: FoundDevice | None, asked: Asked,
           say: Callable[[str], None]) -> dict[str, Any]:
    """The whole record, with nothing in it that names the owner of the machine."""
    made = []
    for found in devices:
        is_default = chosen is not None and chosen.index == found.index
        made.append(_device(found, is_default, asked, say))
    root = knobs.value("HANDTORCH_SENSORS")
    say("looking for sensors")
    return cleaned({                            # type: ignore[no-any-return]
        "format": FORMAT, "version": VERSION, "made_utc": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": asdict(machine()),
        "packages": {row.name: row.version for row in software(PACKAGES)},
        "devices": made, "sensors_simulated": root != "/", **_sensors(Path(root))})


def _device(found: FoundDevice, is_default: bool, asked: Asked, say: Callable[[str], None]
            ) -> dict[str, Any]:
    facts = found.spec.to_dict()
    may = asked.named or found.facts.by_default
    say(f"{found.label}: self-test" if may and asked.test else f"{found.label}: not tested")

    def told_of(done: int, of: int) -> None:
        if done and done % (of // 4 or 1) == 0:
            say(f"{found.label}: self-test, {done} of {of} cases")

    tested = selftest.verdict(found, may and asked.test, told_of)      # made once for each driver
    told: dict[str, Any] = {
        "label": found.label, "default": is_default, "embedded": found.embedded,
        **{name: facts[name] for name in _NAMES},
        "limits": {k: v for k, v in facts.items() if k not in (*_NAMES, *_LONG)},
        "extensions": sorted(found.spec.extensions),
        "self_test": {"state": tested.state, "cases": tested.cases,
                      "detail": [clean(line) for line in tested.detail[:_MOST_LISTED]]},
        "tuning": tuning(found.spec), "benchmark": {}, "benchmark_reason": ""}
    if not may or not asked.measure:
        return {**told, "benchmark_reason": "not asked for" if may else _IDLE}
    say(f"{found.label}: a few seconds of measuring")
    return {**told, **_measured(found)}


def _measured(found: FoundDevice) -> dict[str, Any]:
    """Figures by name; a device that fails is part of the finding, and hides no other."""
    begin, rows = moment(), []
    on = OpenCLContext(found)
    why = ""
    try:
        rows = list(benchmark(on))
    except (HandTorchError, on.cl.Error) as e:
        why = str(e).splitlines()[0]
    others = share_of_others(begin)
    return {"benchmark": {NAMES.get(row.name, row.name): _figure(row) for row in rows},
            "benchmark_reason": why,
            "others_share": None if others is None else round(others, 3)}


def _figure(row: Result) -> dict[str, Any]:
    def short(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.4g}")
    return {"median": short(row.value), "spread": short(row.spread), "repeats": row.repeats,
            "unit": row.unit, "better": row.better, "reason": row.value_reason}


def tuning(spec: DeviceSpec) -> dict[str, Any]:
    """Which results of `handtorch tune` programs use on this device, and what they avoid."""
    used = with_tuned(spec)
    found = "found on this machine" if tuned_file(spec).exists() else "shipped"
    return {"source": found if used.tuned or used.avoid else "none", "shapes": len(used.tuned),
            "avoided": list(used.avoid[:_MOST_LISTED]), "avoided_count": len(used.avoid)}


def _sensors(root: Path) -> dict[str, Any]:
    """What can be read, without the files that it is read from; of the rest, why not."""
    found = find_all(root, os.getpid())
    told = {"sensors": [{"meter": s.meter, "quantity": s.quantity, "kind": s.kind, "part": s.part,
                         "every_ns": s.every_ns, "basis": s.basis} for s in found.signals],
            "sensors_absent": [{"meter": a.meter, "why": a.why, "fix": a.fix}
                               for a in found.absent]}
    for sensor in found.sensors:
        sensor.close()
    return told
