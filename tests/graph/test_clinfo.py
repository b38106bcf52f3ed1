"""clinfo text in the four forms met so far; the devices in it are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadInput
from handtorch.graph import clinfo

FOR_PEOPLE = """\
Number of platforms                               2
  Platform Name                                   Acme OpenCL
  Platform Version                                OpenCL 2.0 Acme 7
  Platform Extensions

  Platform Name                                   Other
  Platform Version                                OpenCL 1.2 Other 3

  Platform Name                                   Acme OpenCL
Number of devices                                 2
this driver prints a greeting
  Device Name                                     Acme One
  Device Vendor                                   Acme
  Device Version                                  OpenCL 2.0 Acme(TM) 1
  Driver Version                                  7.1 build: #12  Compiler 9
  Device OpenCL C Version                         OpenCL C 2.0 Acme(TM) 1
  Device OpenCL C all versions                    OpenCL C                          0x400000
                                                  OpenCL C                          0x402000
  Device Type                                     GPU, Default
  Max compute units                               3
  Max clock frequency                             1MHz
  Max work item sizes                             1024x512x64
  Max work group size                             1024
  Preferred work group size multiple (kernel)     128
  Preferred / native vector sizes
    int                                                  4 / 2
    float                                                4 / 1
    double                                               0 / 0        (n/a)
  Global memory size                              4000000000 (3.725GiB)
  Max memory allocation                           1000000000 (953.7MiB)
  Unified memory for Host and Device              Yes
  Minimum alignment for any data type             128 bytes
  Alignment of base address                       1024 bits (128 bytes)
  Image support                                   No
  Local memory type                               Local
  Local memory size                               32768 (32KiB)
  Max constant buffer size                        65536 (64KiB)
  Max size of kernel argument                     3840 (3.75KiB)
  Profiling timer resolution                      1000ns
  Device Extensions                               cl_khr_fp16  cl_khr_subgroups
  Device Name                                     Acme Two
  Device Type                                     CPU
  Device Extensions

  Platform Name                                   Other
Number of devices                                 1
  Device Name                                     Three
  Device Type                                     CPU, GPU, Accelerator, Default

NULL platform behavior
    Platform Name                                 Acme OpenCL
    Device Name                                   Acme One
"""

ONE = {
    "platform": "Acme OpenCL", "platform_version": "OpenCL 2.0 Acme 7", "name": "Acme One",
    "vendor": "Acme", "device_version": "OpenCL 2.0 Acme(TM) 1",
    "driver": "7.1 build: #12  Compiler 9", "opencl_c": "2.0", "kind": "gpu", "compute_units": 3,
    "max_work_items": (1024, 512, 64), "max_work_group": 1024, "group_multiple": 128,
    "float_width": 1, "global_bytes": 4000000000, "largest_allocation_bytes": 1000000000,
    "unified_memory": True, "base_align_bytes": 128, "images": False, "local_is_dedicated": True,
    "local_bytes": 32768, "constant_bytes": 65536, "max_parameter_bytes": 3840, "timer_ns": 1000,
    "extensions": ("cl_khr_fp16", "cl_khr_subgroups"),
}


def test_text_for_people_gives_every_fact_and_leaves_out_a_clock_of_1_mhz() -> None:
    assert clinfo.devices(FOR_PEOPLE)[0] == ONE


def test_devices_are_split_and_filed_under_their_platform() -> None:
    _, two, three = clinfo.devices(FOR_PEOPLE)
    assert two == {"platform": "Acme OpenCL", "platform_version": "OpenCL 2.0 Acme 7",
                   "name": "Acme Two", "kind": "cpu", "extensions": ()}
    assert three == {"platform": "Other", "platform_version": "OpenCL 1.2 Other 3",
                     "name": "Three", "kind": "other"}


RAW = """\
#PLATFORMS                                        1
  CL_PLATFORM_NAME                                Acme OpenCL
  CL_PLATFORM_VERSION                             OpenCL 3.0 Acme

[ACME/*]    CL_PLATFORM_NAME                                Acme OpenCL
[ACME/*]  #DEVICES                                          1
[ACME/0]    CL_DEVICE_NAME                                  Acme One
[ACME/0]    CL_DEVICE_TYPE                                  CL_DEVICE_TYPE_CPU
[ACME/0]    CL_DEVICE_MAX_CLOCK_FREQUENCY                   1800
[ACME/0]    CL_DEVICE_MAX_WORK_ITEM_SIZES                   64 32 16
[ACME/0]    CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT          1
[ACME/0]    CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT             8
[ACME/0]    CL_DEVICE_MEM_BASE_ADDR_ALIGN                   2048
[ACME/0]    CL_DEVICE_HOST_UNIFIED_MEMORY                   CL_TRUE
[ACME/0]    CL_DEVICE_LOCAL_MEM_TYPE                        CL_GLOBAL
[ACME/0]    CL_DEVICE_EXTENSIONS                            cl_khr_fp64
"""


def test_raw_text() -> None:
    assert clinfo.devices(RAW) == [{
        "platform": "Acme OpenCL", "platform_version": "OpenCL 3.0 Acme", "name": "Acme One",
        "kind": "cpu", "clock_mhz": 1800, "max_work_items": (64, 32, 16), "float_width": 8,
        "base_align_bytes": 256, "unified_memory": True, "local_is_dedicated": False,
        "extensions": ("cl_khr_fp64",)}]


DUMP = """\
Platform number = 2
  Platform info: 0
    CL_PLATFORM_NAME: First
    CL_PLATFORM_VERSION: OpenCL 1.2 first
  Platform info: 1
    CL_PLATFORM_NAME: Second
    CL_PLATFORM_VERSION: OpenCL 3.0 second
Platform index: 0
  Device info: 0
    CL_DEVICE_NAME: A
    CL_DEVICE_MAX_WORK_ITEM_SIZES:
      0: 256 in work group
      1: 128 in work group
      2: 64 in work group
    CL_DEVICE_IMAGE_SUPPORT: 1
Platform index: 1
  Device info: 0
    CL_DEVICE_NAME: B
    CL_DEVICE_MAX_WORK_ITEM_SIZES: [1, 2, 3]
  Device info: 1
    CL_DEVICE_NAME: C
Kernel info
    CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: 32
"""


def test_dump_with_numbered_platforms_and_sizes_on_lines_of_their_own() -> None:
    assert clinfo.devices(DUMP) == [
        {"platform": "First", "platform_version": "OpenCL 1.2 first", "name": "A",
         "max_work_items": (256, 128, 64), "images": True},
        {"platform": "Second", "platform_version": "OpenCL 3.0 second", "name": "B",
         "max_work_items": (1, 2, 3)},
        {"platform": "Second", "platform_version": "OpenCL 3.0 second", "name": "C"}]


def test_dump_without_marks_starts_a_device_when_a_label_comes_again() -> None:
    found = clinfo.devices("CL_PLATFORM_NAME: P\nCL_DEVICE_TYPE: GPU\nCL_DEVICE_NAME: A\n"
                           "CL_DEVICE_TYPE: CPU\nCL_DEVICE_NAME: B\n")
    assert [(d["name"], d["kind"]) for d in found] == [("A", "gpu"), ("B", "cpu")]


def test_lines_with_dashes_and_a_number() -> None:
    found = clinfo.devices("noise [0 X] a=1  b=2\n---- 0 Platform Name: P\n"
                           "---- 0 Platform Version: OpenCL 1.2 \n---- ---- 0 Device Name: A\n"
                           "---- ---- 0 Device Type: GPU\n# next phone\n---- 0 Platform Name: Q\n"
                           "---- ---- 0 Device Name: B\n")
    assert found == [{"platform": "P", "platform_version": "OpenCL 1.2", "name": "A",
                      "kind": "gpu"}, {"platform": "Q", "name": "B"}]


def test_text_about_something_else_has_no_devices() -> None:
    assert clinfo.devices("") == []
    assert clinfo.devices("Dear reader,\n  this is  a letter\n") == []


@pytest.mark.parametrize(("line", "expected"), [
    ("CL_DEVICE_MAX_COMPUTE_UNITS: many", "a number"),
    ("CL_DEVICE_MAX_WORK_ITEM_SIZES: 1 2", "three sizes"),
    ("CL_DEVICE_IMAGE_SUPPORT: maybe", "yes or no"),
    ("CL_DEVICE_OPENCL_C_VERSION: new", "`OpenCL C` and a version"),
    ("Platform index: 4", "the index of a platform listed above"),
])
def test_a_value_that_cannot_be_read_is_refused_with_its_line(line: str, expected: str) -> None:
    label, value = line.split(": ")
    with pytest.raises(BadInput) as caught:
        clinfo.devices(f"CL_DEVICE_NAME: A\n{line}\n")
    assert str(caught.value) == (
        f"clinfo text, line 2: {label} is {value!r}, expected {expected}\n"
        "  try: give the unshortened output of `clinfo`")


def test_sheets_of_real_devices(shared: Path) -> None:
    found = {sheet.name: [(d["name"], d["kind"]) for d in clinfo.devices(sheet.read_text())]
             for sheet in (shared / "data/clinfo").glob("*.txt")}
    assert found["adreno650_clinfo.txt"] == [("QUALCOMM Adreno(TM)", "gpu")]
    assert found["mali_g610_rk3588s_and_pocl_cortex_a55_clinfo.txt"] == [
        ("Mali-LODX r0p0", "gpu"), ("pthread-cortex-a55", "cpu")]
    assert [k for _, k in found["intel_uhd_comet_lake_clinfo.txt"]] == ["accelerator", "cpu", "gpu"]
    assert found["intel_uhd_comet_lake_clgetinfo.txt"] == found["intel_uhd_comet_lake_clinfo.txt"]
    assert [n for n, _ in found["fp16_support_adreno630_malig57_powervr_ge8320.txt"]] == [
        "QUALCOMM Adreno(TM)", "Mali-G57 MC2 r0p1", "PowerVR GE8320"]
    assert all(found.values())
