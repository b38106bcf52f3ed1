"""Every OpenCL device of this machine, in a stable order, and the choice of one.

The order is the order of preference: a GPU, then a runtime installed on the system, then the one
from pip; what may only be chosen by name comes last. Index 0 is therefore the default device.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.errors import BadInput, NoDevice
from handtorch.graph import clinfo
from handtorch.graph.device_spec import DeviceSpec, from_extensions
from handtorch.runtime.opencl import loader
from handtorch.runtime.opencl.platforms import PLATFORMS, PlatformFacts, facts_of

SHORT_NAMES = frozenset(p.short for p in PLATFORMS)


@dataclass(frozen=True)
class FoundDevice:
    """A live device. `short` and `index` name it on this machine; `sub` is the part, if a part."""

    spec: DeviceSpec
    short: str
    index: int
    embedded: bool
    handle: Any = field(repr=False, compare=False)      # pyopencl.Device
    sub: str | None = None

    @property
    def label(self) -> str:
        """What `choose` takes to find it again: `pocl`, `pocl/0-of-2`."""
        return f"{self.short}/{self.sub}" if self.sub else self.short

    @property
    def facts(self) -> PlatformFacts:
        return facts_of(self.spec.platform)


@dataclass(frozen=True)
class Found:
    devices: tuple[FoundDevice, ...]
    notes: tuple[str, ...]


def find_devices() -> tuple[FoundDevice, ...]:
    """All devices that answered; empty on a machine without any. See also `notes`."""
    return _found().devices


def notes() -> tuple[str, ...]:
    """What did not work while looking, each in one line."""
    return _found().notes


@functools.cache
def _found() -> Found:
    """Ask every platform; one that fails becomes a note and does not hide the others."""
    loaded = loader.loaded()
    cl = loaded.module
    remarks = list(loaded.notes)
    raw: list[tuple[DeviceSpec, bool, Any]] = []
    platforms = _platforms(cl)
    for platform in platforms:
        name = "an OpenCL platform"
        try:
            name = platform.name.strip()
            embedded = _library_of(platform, loaded.embedded) is not None
            for device in platform.get_devices():
                if device.available and device.compiler_available:
                    raw.append((spec_of(cl, device), embedded, device))
                else:
                    remarks.append(f"{name}: {device.name.strip()} is not available")
        except cl.Error as failed:
            remarks.append(f"{name} does not answer and is left out ({failed})")
    if len(platforms) < len(loaded.icd_files):
        remarks += filter(None, map(_why_broken, loaded.icd_files))
    return Found(_numbered(raw), tuple(remarks))


def _platforms(cl: Any) -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.LogicError as none:
        if none.code == _PLATFORM_NOT_FOUND:
            return []
        raise NoDevice("no OpenCL", why=str(none), fix="reinstall the OpenCL driver") from none


_PLATFORM_NOT_FOUND = -1001     # CL_PLATFORM_NOT_FOUND_KHR: the loader has no working runtime


def _numbered(raw: list[tuple[DeviceSpec, bool, Any]]) -> tuple[FoundDevice, ...]:
    """In order of preference, ties by name, then as the platform lists them."""
    def rank(entry: tuple[DeviceSpec, bool, Any]) -> tuple[object, ...]:
        spec, embedded, _ = entry
        return (not facts_of(spec.platform).by_default, spec.kind != "gpu", embedded,
                spec.kind != "cpu", spec.platform, spec.name)

    result, used = [], Counter[str]()
    for index, (spec, embedded, handle) in enumerate(sorted(raw, key=rank)):
        short = facts_of(spec.platform).short
        used[short] += 1
        if used[short] > 1:
            short = f"{short}-{used[short]}"
        result.append(FoundDevice(spec, short, index, embedded, handle))
    return tuple(result)


def spec_of(cl: Any, device: Any) -> DeviceSpec:
    """The facts of a live device, as `DeviceSpec.from_clinfo` would read them from clinfo."""
    extensions = tuple(device.extensions.split())
    platform = device.platform
    version = device.version.strip()
    kind, local = cl.device_type, cl.device_local_mem_type
    kinds = {kind.GPU: "gpu", kind.CPU: "cpu", kind.ACCELERATOR: "accelerator"}
    return DeviceSpec(
        name=device.name.strip(), vendor=device.vendor.strip(), platform=platform.name.strip(),
        platform_version=platform.version.strip(), device_version=version,
        opencl_c=clinfo.c_version(device.opencl_c_version), driver=device.driver_version.strip(),
        kind=kinds.get(device.type & ~kind.DEFAULT, "other"),
        compute_units=device.max_compute_units, max_work_group=device.max_work_group_size,
        max_work_items=tuple(device.max_work_item_sizes[:3]), local_bytes=device.local_mem_size,
        local_is_dedicated=device.local_mem_type == local.LOCAL,
        global_bytes=device.global_mem_size,
        largest_allocation_bytes=device.max_mem_alloc_size,
        base_align_bytes=device.mem_base_addr_align // 8,
        constant_bytes=device.max_constant_buffer_size,
        float_width=device.native_vector_width_float,
        group_multiple=_group_multiple(cl, device, version),
        clock_mhz=clinfo.clock(str(device.max_clock_frequency)), images=bool(device.image_support),
        unified_memory=bool(device.host_unified_memory),
        max_parameter_bytes=device.max_parameter_size,
        timer_ns=device.profiling_timer_resolution, extensions=extensions, assumed=(),
        **from_extensions(extensions),
    )


def _group_multiple(cl: Any, device: Any, version: str) -> int | None:
    """Devices older than OpenCL 3.0 tell it of a built kernel only, which is too dear here."""
    if re.match(r"OpenCL [12]\.", version):
        return None
    return int(device.get_info(cl.device_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE))


class _DlInfo(ctypes.Structure):
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p))


def _library_of(platform: Any, candidates: tuple[Path, ...]) -> Path | None:
    """Which of these libraries the platform's code lies in.

    No query tells it, and a system may have the same runtime installed. The loader's contract
    (cl_khr_icd) puts a table of the library's functions first in every object; only platforms
    of a family that pip brings are looked into.
    """
    if not candidates or facts_of(platform.name).short != "intel":
        return None
    table = ctypes.c_void_p.from_address(platform.int_ptr).value
    assert table is not None
    function = ctypes.c_void_p.from_address(table)
    info = _DlInfo()
    if not ctypes.CDLL(None).dladdr(function, ctypes.byref(info)) or not info.file:
        return None
    library = Path(info.file.decode()).resolve()
    return library if library in candidates else None


def _why_broken(icd: Path) -> str | None:
    """Loaders skip a runtime they cannot open without a word; say which one, and why."""
    if icd.suffix != ".icd":
        return None
    library = icd.read_text(errors="replace").strip()
    try:
        ctypes.CDLL(library)
    except OSError as broken:
        return f"{icd.name} names an OpenCL runtime that does not load ({broken})"
    return None


def choose(request: str | None = None) -> FoundDevice:
    """The device named by `request`, else by HANDTORCH_DEVICE, else the best of the machine.

    A request is an index, a short name, or a part of the name, vendor or platform; `/0-of-2`
    after it asks for the first of two equal parts.
    """
    wanted = (request or knobs.value("HANDTORCH_DEVICE")).strip()
    where = "HANDTORCH_DEVICE" if wanted and not request else ""
    found = find_devices()
    if not found:
        raise NoDevice("no OpenCL device", why=_why_none(), fix=_how_to_get_one())
    name, part = wanted, re.search(r"/(\d+)-of-(\d+)$", wanted)
    if part:
        name = wanted[:part.start()]
    device = _named(name, found, where) if name else _default(found)
    return _part(device, int(part[1]), int(part[2]), where) if part else device


def why_default(device: FoundDevice) -> str:
    """The reason that makes it the default, for people."""
    if device.spec.kind == "gpu":
        return "a GPU"
    return "no GPU and no driver of the system: the runtime from pip is used" if device.embedded \
        else "no GPU found: an installed runtime"


def _default(found: tuple[FoundDevice, ...]) -> FoundDevice:
    if not found[0].facts.by_default:
        raise NoDevice("no OpenCL device to choose by default", why=f"there is {_listing(found)}",
                       fix=f"name it: `--device {found[0].short}`; or install "
                           f"{loader.INSTALL}")
    return found[0]


def _named(name: str, found: tuple[FoundDevice, ...], where: str) -> FoundDevice:
    wanted = name.lower()
    if wanted.isdecimal():
        matches = [d for d in found if d.index == int(wanted)]
    elif wanted in SHORT_NAMES or any(d.short == wanted for d in found):
        # Never by a part of a name: PoCL's vendor here is "GenuineIntel", and whoever tests on
        # `pocl` and on `intel` must not get PoCL twice where the other is missing.
        matches = [d for d in found if d.short == wanted]
    else:
        matches = [d for d in found if any(
            wanted in t.lower() for t in (d.spec.name, d.spec.vendor, d.spec.platform))]
    if not matches:
        raise NoDevice(f"no OpenCL device {name!r}", why=f"there is {_listing(found)}",
                       where=where, fix=f"`--device {found[0].short}`, or `handtorch devices`")
    if len(matches) > 1:
        raise BadInput(f"device {name!r} is ambiguous", why=f"it fits {_listing(matches)}",
                       where=where, fix=f"`--device {matches[0].short}`")
    return matches[0]


def _listing(found: tuple[FoundDevice, ...] | list[FoundDevice]) -> str:
    return "; ".join(f"{d.index} {d.short} ({d.spec.name})" for d in found)


def _part(device: FoundDevice, unit: int, parts: int, where: str) -> FoundDevice:
    """Part `unit` of `parts` equal ones; units that do not divide are left idle."""
    what, spec = f"device '{device.short}/{unit}-of-{parts}'", device.spec
    size = spec.compute_units // max(parts, 1)
    if not 0 <= unit < parts or not size:
        raise BadInput(what, where=where, why=f"{spec.compute_units} compute units make at most "
                       f"{spec.compute_units} parts, counted from 0",
                       fix=f"`--device {device.short}/0-of-{spec.compute_units}`")
    if not device.facts.sub_devices:
        cores = f"{unit * size}-{unit * size + size - 1}" if size > 1 else str(unit)
        raise BadInput(what, where=where, why=f"{spec.platform} runs a part on all cores",
                       fix=f"limit the whole process: `taskset -c {cores} handtorch ... "
                           f"--device {device.short}`")
    cl = loader.load()
    equally = cl.device_partition_property.EQUALLY
    if equally not in device.handle.partition_properties:
        raise BadInput(what, where=where, why=f"{spec.name} cannot be divided",
                       fix=f"`--device {device.short}`")
    handles = device.handle.create_sub_devices([equally, size])
    return replace(device, spec=spec_of(cl, handles[unit]), handle=handles[unit],
                   sub=f"{unit}-of-{parts}")


def _why_none() -> str:
    reasons = list(notes())
    if chosen := loader.loaded().user_vendors:
        reasons.insert(0, f"OCL_ICD_VENDORS is {chosen}, where no runtime works")
    return "; ".join(reasons) or "no OpenCL runtime is installed"


def _how_to_get_one() -> str:
    if loader.loaded().user_vendors:
        return f"unset OCL_ICD_VENDORS; or install {loader.INSTALL}"
    return f"install {loader.INSTALL}"
