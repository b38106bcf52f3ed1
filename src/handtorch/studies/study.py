"""What every study is given, and what a run file says about where the studies ran."""

from __future__ import annotations

import importlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol, cast

from handtorch.errors import BadInput
from handtorch.record import Comparison, Device, Machine, Place, RunWriter, Software
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.selftest import verdict
from handtorch.studies import STUDIES

HOST = "host CPU"
SelfTestState = Literal["passed", "failed", "not run"]
_PACKAGES = ("handtorch", "numpy", "pyopencl", "torch")


@dataclass(frozen=True)
class Setting:
    """Where a study runs, how thoroughly, and where its rows go."""

    device: FoundDevice
    record: RunWriter
    quick: bool
    progress: Callable[[str], None]

    @property
    def place(self) -> str:
        return self.device.label


class Study(Protocol):
    QUESTION: str

    def run(self, at: Setting) -> str: ...


def study(name: str) -> Study:
    """The study's module; refuses a name that is not in the table."""
    if name not in STUDIES:
        raise BadInput(f"no study {name!r}", why=f"there is {', '.join(STUDIES)}",
                       fix="`handtorch study --list`")
    return cast(Study, importlib.import_module(STUDIES[name]))


def record_setting(record: RunWriter, device: FoundDevice) -> None:
    """Machine, software, device and places are in the run afterwards.

    The self-test's verdict is the one already known; a study does not wait for a new one."""
    spec, cores = device.spec, _cores()
    record.add(_machine(), *_software())
    record.add(Device(
        id=0, name=spec.name, vendor=spec.vendor, platform=spec.platform, driver=spec.driver,
        kind=spec.kind, compute_units=spec.compute_units, global_bytes=spec.global_bytes,
        local_bytes=spec.local_bytes, largest_allocation_bytes=spec.largest_allocation_bytes,
        self_test=cast(SelfTestState, verdict(device, run=False).state),
        facts=json.dumps(spec.to_dict())))
    shares = spec.kind == "cpu"
    own = "not a CPU" if not shares else "the runtime does not say which cores a part has"
    whole = shares and device.sub is None
    record.add(Place(name=device.label, kind="device", device=0, cores=cores if whole else None,
                     cores_reason="" if whole else own),
               Place(name=HOST, kind="host cpu", cores=cores),
               Comparison(first=device.label, second=HOST, same_silicon=shares,
                          same_silicon_reason="the OpenCL device is this machine's CPU" if shares
                          else ""))


def _cores() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def _machine() -> Machine:
    model, why = _cpu_model()
    return Machine(
        cpu_model=model, cpu_model_reason=why, architecture=platform.machine(),
        cores=os.cpu_count() or 1, usable_cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        os=f"{platform.system()} {platform.release()}", python=platform.python_version())


def _cpu_model() -> tuple[str | None, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError as error:
        return None, f"/proc/cpuinfo: {error.strerror}"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    found = next(names, "")
    return (found, "") if found else (None, "/proc/cpuinfo names no model")


def _software() -> Iterator[Software]:
    for name in _PACKAGES:
        try:
            yield Software(name=name, version=version(name))
        except PackageNotFoundError:
            yield Software(name=name, version=None, version_reason="not installed")
