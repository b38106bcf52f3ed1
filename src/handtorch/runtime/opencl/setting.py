"""What a run file says about where it ran: machine, software, device and places."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from handtorch.record import Comparison, Device, Machine, Place, Software
from handtorch.record.row import Row
from handtorch.runtime.opencl.discover import FoundDevice

HOST = "host CPU"
SelfTestState = Literal["passed", "failed", "not run"]
_PACKAGES = ("handtorch", "numpy", "pyopencl", "torch")


def setting_rows(device: FoundDevice, self_test: SelfTestState) -> list[Row]:
    """The machine, the software that takes part, the device, and two places: the device under its
    label, and the host's CPU."""
    spec, cores = device.spec, _cores()
    shares = spec.kind == "cpu"
    own = "not a CPU" if not shares else "the runtime does not say which cores a part has"
    whole = shares and device.sub is None
    return [
        machine(), *software(_PACKAGES),
        Device(id=0, name=spec.name, vendor=spec.vendor, platform=spec.platform,
               driver=spec.driver, kind=spec.kind, compute_units=spec.compute_units,
               global_bytes=spec.global_bytes, local_bytes=spec.local_bytes,
               largest_allocation_bytes=spec.largest_allocation_bytes, self_test=self_test,
               facts=json.dumps(spec.to_dict())),
        Place(name=device.label, kind="device", device=0, cores=cores if whole else None,
              cores_reason="" if whole else own),
        Place(name=HOST, kind="host cpu", cores=cores),
        Comparison(first=device.label, second=HOST, same_silicon=shares,
                   same_silicon_reason="the OpenCL device is this machine's CPU" if shares
                   else "")]


def _cores() -> str:
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def machine() -> Machine:
    """The computer; nothing of it names its owner."""
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


def software(names: Sequence[str]) -> Iterator[Software]:
    """Packages and their versions; one that is not there says so."""
    for name in names:
        try:
            yield Software(name=name, version=version(name))
        except PackageNotFoundError:
            yield Software(name=name, version=None, version_reason="not installed")
