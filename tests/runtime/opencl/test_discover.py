"""Order and choice on made-up machines; facts and parts on the real devices."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from handtorch.errors import BadInput, HandTorchError, NoDevice
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.runtime.opencl import discover, loader
from handtorch.runtime.opencl.discover import Found, FoundDevice, choose

POCL = replace(GENERIC, platform="Portable Computing Language", name="pthread-zen4",
               vendor="AuthenticAMD", kind="cpu", compute_units=4)
INTEL = replace(POCL, platform="Intel(R) OpenCL", name="AMD EPYC", vendor="Intel(R) Corporation")
ADRENO = replace(GENERIC, platform="QUALCOMM Snapdragon(TM)", name="QUALCOMM Adreno(TM)",
                 vendor="QUALCOMM")
OCLGRIND = replace(GENERIC, platform="Oclgrind", name="Oclgrind Simulator", kind="other")
FPGA = replace(INTEL, platform="Intel(R) FPGA Emulation Platform", kind="accelerator")


class Machine:
    """What this process then takes for its machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        monkeypatch.delenv("HANDTORCH_DEVICE", raising=False)

    def has(self, *specs: DeviceSpec, embedded: Sequence[DeviceSpec] = (),
            notes: tuple[str, ...] = (), user: str = "") -> None:
        raw = [(s, s in embedded, None) for s in specs]
        found = Found(discover._numbered(raw), notes)
        self._patch.setattr(discover, "_found", lambda: found)
        self.loader_gives(user=user)

    def loader_gives(self, module: ModuleType | None = None, files: tuple[Path, ...] = (),
                     user: str = "") -> None:
        state = loader.Loaded(module or ModuleType("cl"), user, files, (), ())
        self._patch.setattr(loader, "loaded", lambda: state)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def refusal(request: str | None = None) -> tuple[type[HandTorchError], str]:
    with pytest.raises(HandTorchError) as caught:
        choose(request)
    return type(caught.value), str(caught.value)


def test_a_gpu_then_what_is_installed_then_pip_then_simulators(machine: Machine) -> None:
    machine.has(OCLGRIND, INTEL, FPGA, POCL, ADRENO, embedded=[INTEL])
    found = discover.find_devices()
    assert [d.short for d in found] == ["adreno", "pocl", "intel", "fpga", "oclgrind"]
    assert [d.index for d in found] == [0, 1, 2, 3, 4]
    assert choose() is found[0]


def test_the_order_does_not_follow_the_drivers(machine: Machine) -> None:
    machine.has(POCL, INTEL)
    one = [d.spec for d in discover.find_devices()]
    machine.has(INTEL, POCL)
    assert [d.spec for d in discover.find_devices()] == one


@pytest.mark.parametrize(("specs", "why"), [
    ((POCL, ADRENO), "a GPU"),
    ((POCL, INTEL), "no GPU found: an installed runtime"),
    ((INTEL,), "no GPU and no driver of the system: the runtime from pip is used"),
])
def test_why_default(machine: Machine, specs: tuple[DeviceSpec, ...], why: str) -> None:
    machine.has(*specs, embedded=[INTEL])
    assert discover.why_default(choose()) == why


def test_a_second_of_a_kind_gets_a_number(machine: Machine) -> None:
    machine.has(INTEL, replace(INTEL, driver="installed"), embedded=[INTEL])
    assert [(d.short, d.embedded) for d in discover.find_devices()] == [
        ("intel", False), ("intel-2", True)]
    assert choose("intel-2").embedded


@pytest.mark.parametrize(("request_", "short"), [
    ("0", "adreno"), ("2", "intel"), ("pocl", "pocl"), ("PoCL", "pocl"), ("snapdragon", "adreno"),
    ("zen4", "pocl"), ("epyc", "intel"), ("Corporation", "intel"), (" intel ", "intel")])
def test_by_index_short_name_or_part_of_a_name(
        machine: Machine, monkeypatch: pytest.MonkeyPatch, request_: str, short: str) -> None:
    machine.has(ADRENO, POCL, INTEL, embedded=[INTEL])
    assert choose(request_).label == short
    monkeypatch.setenv("HANDTORCH_DEVICE", request_)
    assert choose().label == short
    assert choose("pocl").label == "pocl"       # an explicit request is stronger


def test_an_unknown_device_is_refused_with_what_there_is(machine: Machine) -> None:
    machine.has(POCL, ADRENO)
    for name in ("radeon", "7"):
        assert refusal(name) == (NoDevice, (
            f"no OpenCL device '{name}': there is 0 adreno (QUALCOMM Adreno(TM)); "
            "1 pocl (pthread-zen4)\n  try: `--device adreno`, or `handtorch devices`"))


def test_a_platforms_short_name_never_means_another(
        machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has(replace(POCL, vendor="GenuineIntel"))
    monkeypatch.setenv("HANDTORCH_DEVICE", "intel")
    assert refusal() == (NoDevice, (
        "no OpenCL device 'intel': there is 0 pocl (pthread-zen4)\n  from HANDTORCH_DEVICE\n"
        "  try: `--device pocl`, or `handtorch devices`"))


def test_an_ambiguous_name(machine: Machine) -> None:
    machine.has(POCL, INTEL, ADRENO, embedded=[INTEL])
    assert refusal("m") == (BadInput, (
        "device 'm' is ambiguous: it fits 0 adreno (QUALCOMM Adreno(TM)); 1 pocl (pthread-zen4); "
        "2 intel (AMD EPYC)\n  try: `--device adreno`"))


def test_nothing_at_all(machine: Machine) -> None:
    machine.has()
    assert refusal() == (NoDevice, (
        "no OpenCL device: no OpenCL runtime is installed\n"
        "  try: install one: `pip install intel-opencl-rt intel-cmplr-lib-rt` (x86-64, needs no "
        "root), or the device's own driver, or PoCL (Debian: `apt install pocl-opencl-icd`)"))


def test_nothing_where_the_user_pointed(machine: Machine) -> None:
    machine.has(notes=("a.icd is broken",), user="vendors/")
    assert refusal("pocl") == (NoDevice, (
        "no OpenCL device: OCL_ICD_VENDORS is vendors/, where no runtime works; a.icd is broken\n"
        "  try: unset OCL_ICD_VENDORS; or install one: `pip install intel-opencl-rt "
        "intel-cmplr-lib-rt` (x86-64, needs no root), or the device's own driver, or PoCL "
        "(Debian: `apt install pocl-opencl-icd`)"))


def test_a_simulator_is_not_chosen_by_default(machine: Machine) -> None:
    machine.has(OCLGRIND)
    assert refusal() == (NoDevice, (
        "no OpenCL device to choose by default: there is 0 oclgrind (Oclgrind Simulator)\n"
        "  try: name it: `--device oclgrind`; or install one: `pip install intel-opencl-rt "
        "intel-cmplr-lib-rt` (x86-64, needs no root), or the device's own driver, or PoCL "
        "(Debian: `apt install pocl-opencl-icd`)"))
    assert choose("oclgrind").spec == OCLGRIND


@pytest.mark.parametrize(("part", "cores"), [("1-of-2", "2-3"), ("1-of-4", "1")])
def test_a_part_is_refused_where_the_runtime_ignores_it(
        machine: Machine, part: str, cores: str) -> None:
    machine.has(INTEL)
    assert refusal(f"intel/{part}") == (BadInput, (
        f"device 'intel/{part}': Intel(R) OpenCL runs a part on all cores\n"
        f"  try: limit the whole process: `taskset -c {cores} handtorch ... --device intel`"))


@pytest.mark.parametrize("part", ["2-of-2", "0-of-5", "0-of-0"])
def test_a_part_that_cannot_be(machine: Machine, part: str) -> None:
    machine.has(POCL)
    assert refusal(f"pocl/{part}") == (BadInput, (
        f"device 'pocl/{part}': 4 compute units make at most 4 parts, counted from 0\n"
        "  try: `--device pocl/0-of-4`"))


def test_a_device_that_cannot_be_divided(machine: Machine) -> None:
    cl = SimpleNamespace(device_partition_property=SimpleNamespace(EQUALLY=4230))
    machine.has(ADRENO)
    machine.loader_gives(cl)
    whole = discover.find_devices()[0]
    undivided = replace(whole, handle=SimpleNamespace(partition_properties=[0]))
    with pytest.raises(BadInput) as caught:
        discover._part(undivided, 0, 2, "")
    assert str(caught.value) == ("device 'adreno/0-of-2': QUALCOMM Adreno(TM) cannot be divided\n"
                                 "  try: `--device adreno`")


class ClError(Exception):
    code = -1001


class BadPlatform:
    name = "Half Broken"

    def get_devices(self) -> list[Any]:
        raise ClError("clGetDeviceIDs failed: OUT_OF_HOST_MEMORY")


def fake_cl(platforms: list[Any] | None) -> Any:
    def get_platforms() -> list[Any]:
        if platforms is None:
            raise ClError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")
        return platforms

    return SimpleNamespace(Error=ClError, LogicError=ClError, get_platforms=get_platforms)


def test_a_platform_that_throws_is_noted_and_hides_nothing(
        machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(available=True, compiler_available=True, name="One")
    asleep = SimpleNamespace(available=False, compiler_available=True, name="Two ")
    good = SimpleNamespace(name="ARM Platform", get_devices=lambda: [device, asleep])
    machine.loader_gives(fake_cl([BadPlatform(), good]))
    monkeypatch.setattr(discover, "spec_of", lambda cl, device: ADRENO)
    found = discover._found.__wrapped__()
    assert [d.spec for d in found.devices] == [ADRENO]
    assert found.notes == (
        "Half Broken does not answer and is left out (clGetDeviceIDs failed: OUT_OF_HOST_MEMORY)",
        "ARM Platform: Two is not available")


def test_a_loader_without_runtimes_gives_no_devices(machine: Machine) -> None:
    machine.loader_gives(fake_cl(None))
    assert discover._found.__wrapped__() == Found((), ())


def test_a_loader_that_fails_otherwise_is_not_taken_for_an_empty_one(
        machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClError, "code", -6)
    machine.loader_gives(fake_cl(None))
    with pytest.raises(NoDevice) as caught:
        discover._found.__wrapped__()
    assert str(caught.value) == ("no OpenCL: clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR\n"
                                 "  try: reinstall the OpenCL driver")


# The devices that are really here.


def test_a_live_spec_survives_json(opencl_device: FoundDevice) -> None:
    spec = opencl_device.spec
    assert DeviceSpec.from_dict(spec.to_dict()) == spec
    assert choose(opencl_device.label) is choose(str(opencl_device.index)) is opencl_device


def test_only_the_library_from_pip_counts_as_embedded(opencl_device: FoundDevice) -> None:
    """The same runtime may be installed on the system too, from another place."""
    platform = opencl_device.handle.platform
    here = loader.embedded_libraries()
    assert (discover._library_of(platform, here) is not None) == opencl_device.embedded
    assert discover._library_of(platform, (Path("elsewhere/libintelocl.so"),)) is None


def test_clinfo_tells_the_same(opencl_device: FoundDevice) -> None:
    """Two readers of the same driver: every fact agrees but the memory that is free just now."""
    if not shutil.which("clinfo"):
        pytest.skip("clinfo is not installed")
    text = subprocess.run(["clinfo"], capture_output=True, text=True, check=True).stdout
    told = {s.key: s for s in map(lambda i: DeviceSpec.from_clinfo(text, i),
                                  range(len(discover.find_devices())))}
    spec = opencl_device.spec
    same = replace(told[spec.key], global_bytes=spec.global_bytes, clock_mhz=spec.clock_mhz,
                   largest_allocation_bytes=spec.largest_allocation_bytes)
    if spec.group_multiple is None:     # clinfo builds a kernel to learn it
        same = replace(same, group_multiple=None)
    assert same == spec


def test_a_part_of_a_live_device(opencl_device: FoundDevice) -> None:
    spec = opencl_device.spec
    if spec.compute_units < 2 or not opencl_device.facts.sub_devices:
        pytest.skip("cannot be divided")
    part = choose(f"{opencl_device.short}/1-of-2")
    assert part.label == f"{opencl_device.short}/1-of-2"
    assert part.spec.compute_units == spec.compute_units // 2
    assert part.spec.key == spec.key
