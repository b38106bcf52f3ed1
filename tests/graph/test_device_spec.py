from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from handtorch.errors import BadInput
from handtorch.graph.device_spec import GENERIC, DeviceSpec, from_extensions

ENOUGH = """\
CL_PLATFORM_NAME: Acme OpenCL
CL_PLATFORM_VERSION: OpenCL 3.0 Acme
CL_DEVICE_TYPE: GPU
CL_DEVICE_NAME: Acme One
CL_DEVICE_VERSION: OpenCL 3.0 Acme(TM) 1
CL_DRIVER_VERSION: 7.1
CL_DEVICE_MAX_COMPUTE_UNITS: 4
CL_DEVICE_MAX_WORK_ITEM_SIZES: [1024, 1024, 64]
CL_DEVICE_MAX_WORK_GROUP_SIZE: 1024
CL_DEVICE_MAX_MEM_ALLOC_SIZE: 1073741824
CL_DEVICE_GLOBAL_MEM_SIZE: 5973733376
CL_DEVICE_LOCAL_MEM_SIZE: 32768
CL_DEVICE_EXTENSIONS: cl_khr_fp16 cl_khr_subgroups
"""


def test_json_and_back() -> None:
    spec = replace(DeviceSpec.from_clinfo(ENOUGH), clock_mhz=1800, unified_memory=True)
    assert DeviceSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize(("change", "message"), [
    ({"local_bytes": "32768"}, "device spec: local_bytes is '32768', expected int"),
    ({"local_bytes": True}, "device spec: local_bytes is True, expected int"),
    ({"local_bytes": -1}, "device spec: local_bytes is -1, expected int"),
    ({"max_work_items": [1, 2]},
     "device spec: max_work_items is [1, 2], expected tuple[int, int, int]"),
    ({"fp16": None}, "device spec: fp16 is None, expected bool"),
    ({"extensions": "a b"}, "device spec: extensions is 'a b', expected tuple[str, ...]"),
    ({"kind": "toaster"},
     "device spec: kind is 'toaster', expected one of gpu, cpu, accelerator, other"),
    ({"colour": "red"}, "device spec: missing or unknown facts: colour\n"
                        "  try: write it again with this version of handtorch"),
])
def test_a_foreign_record_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        DeviceSpec.from_dict(GENERIC.to_dict() | change)
    assert str(caught.value) == message


def test_a_record_without_a_fact_is_refused() -> None:
    short = GENERIC.to_dict()
    del short["driver"]
    with pytest.raises(BadInput, match="missing or unknown facts: driver"):
        DeviceSpec.from_dict(short)


def test_key_follows_what_decides_how_kernels_compile() -> None:
    assert GENERIC.key == replace(GENERIC, compute_units=1, global_bytes=5).key
    for name in ("platform", "platform_version", "name", "device_version", "driver"):
        assert replace(GENERIC, **{name: "other"}).key != GENERIC.key
    # Written into caches and verdicts on disk: a change here orphans them all.
    assert GENERIC.key == "812dccfe26aaca68"


def test_generic_promises_no_more_than_a_small_phone() -> None:
    assert (GENERIC.max_work_group, GENERIC.local_bytes, GENERIC.opencl_c) == (256, 32768, "1.2")
    assert not any((GENERIC.fp16, GENERIC.fp64, GENERIC.subgroups, GENERIC.command_buffers,
                    GENERIC.images))


@pytest.mark.parametrize(("extension", "fact"), [
    ("cl_khr_fp16", "fp16"), ("cl_khr_fp64", "fp64"), ("cl_khr_subgroups", "subgroups"),
    ("cl_intel_subgroups", "subgroups"), ("cl_khr_command_buffer", "command_buffers")])
def test_extensions_decide(extension: str, fact: str) -> None:
    assert [k for k, v in from_extensions((extension,)).items() if v] == [fact]
    # a longer name does not count
    assert not any(from_extensions((f"{extension}_more",)).values())


def test_facts_a_text_lacks_take_the_opencl_minimum_and_are_named() -> None:
    spec = DeviceSpec.from_clinfo(ENOUGH)
    assert spec.assumed == ("vendor", "opencl_c", "base_align_bytes", "constant_bytes",
                            "float_width", "images", "max_parameter_bytes")
    assert (spec.opencl_c, spec.base_align_bytes, spec.constant_bytes) == ("1.2", 128, 65536)
    assert spec.local_is_dedicated is spec.unified_memory is spec.timer_ns is None
    assert spec.fp16 and spec.subgroups and not spec.fp64
    assert spec.has("cl_khr_fp16") and not spec.has("cl_khr_fp1")
    assert (spec.compute_units, spec.max_work_items) == (4, (1024, 1024, 64))


def test_a_text_without_the_sizes_is_refused_with_their_names() -> None:
    text = "\n".join(line for line in ENOUGH.splitlines()
                     if "MEM" not in line and "EXTENSIONS" not in line)
    with pytest.raises(BadInput) as caught:
        DeviceSpec.from_clinfo(text)
    assert str(caught.value) == (
        "clinfo text, device 0 (Acme One): it does not tell local_bytes, global_bytes, "
        "largest_allocation_bytes, extensions\n  try: give the unshortened output of `clinfo`")


@pytest.mark.parametrize(("text", "device", "message"), [
    (ENOUGH, 1, "clinfo text, device 1: the text describes 1 device(s)\n"
                "  try: a device from 0 to 0"),
    (ENOUGH, -1, "clinfo text, device -1: the text describes 1 device(s)\n"
                 "  try: a device from 0 to 0"),
    ("", 0, "clinfo text, device 0: the text describes 0 device(s)\n"
            "  try: give the unshortened output of `clinfo`"),
])
def test_a_device_that_is_not_in_the_text(text: str, device: int, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        DeviceSpec.from_clinfo(text, device)
    assert str(caught.value) == message


@pytest.fixture
def sheets(shared: Path) -> Path:
    return shared / "data/clinfo"


def test_a_real_adreno(sheets: Path) -> None:
    spec = DeviceSpec.from_clinfo((sheets / "adreno650_clinfo.txt").read_text())
    wanted = {"kind": "gpu", "opencl_c": "2.0", "compute_units": 3, "max_work_group": 1024,
              "local_bytes": 32768, "local_is_dedicated": True, "group_multiple": 128,
              "clock_mhz": None, "fp16": True, "subgroups": True, "unified_memory": True,
              "largest_allocation_bytes": 998073344, "timer_ns": 1000, "assumed": ()}
    assert {k: v for k, v in dataclasses.asdict(spec).items() if k in wanted} == wanted


def test_a_real_mali_and_the_cpu_beside_it(sheets: Path) -> None:
    text = (sheets / "mali_g610_rk3588s_and_pocl_cortex_a55_clinfo.txt").read_text()
    mali, cpu = DeviceSpec.from_clinfo(text, 0), DeviceSpec.from_clinfo(text, 1)
    assert (mali.kind, mali.platform, mali.group_multiple) == ("gpu", "ARM Platform", 16)
    assert (cpu.kind, cpu.float_width, cpu.fp64, cpu.clock_mhz) == ("cpu", 4, True, 1800)
    assert mali.key != cpu.key


def test_a_real_partial_sheet_is_refused(sheets: Path) -> None:
    text = (sheets / "fp16_support_adreno630_malig57_powervr_ge8320.txt").read_text()
    with pytest.raises(BadInput, match="it does not tell compute_units, max_work_group"):
        DeviceSpec.from_clinfo(text, 2)
