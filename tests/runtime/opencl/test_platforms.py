from __future__ import annotations

import pytest

from handtorch.runtime.opencl.platforms import PLATFORMS, facts_of


@pytest.mark.parametrize(("platform", "short"), [
    ("Portable Computing Language", "pocl"),
    ("Intel(R) OpenCL", "intel"),
    ("Intel(R) OpenCL HD Graphics", "intel-gpu"),
    ("Intel(R) OpenCL Graphics", "intel-gpu"),
    ("Intel(R) FPGA Emulation Platform for OpenCL(TM)", "fpga"),
    ("Oclgrind", "oclgrind"),
    ("QUALCOMM Snapdragon(TM)", "adreno"),
    ("ARM Platform", "mali"),
    ("NVIDIA CUDA", "nvidia"),
    ("Clover from a friend", "clover"),
    ("(?)", "opencl"),
])
def test_short_names(platform: str, short: str) -> None:
    assert facts_of(platform).short == short


def test_simulators_are_never_chosen_by_default() -> None:
    assert [p.short for p in PLATFORMS if not p.by_default] == ["fpga", "oclgrind"]


def test_what_experience_taught() -> None:
    pocl, intel = facts_of("Portable Computing Language"), facts_of("Intel(R) OpenCL")
    assert pocl.own_kernel_cache and pocl.sub_devices and not pocl.binaries_cheap
    assert intel.binaries_cheap and not intel.sub_devices and not intel.own_kernel_cache


def test_an_unknown_platform_gets_the_cautious_answers() -> None:
    unknown = facts_of("Something New")
    assert unknown.by_default and not unknown.binaries_cheap and not unknown.own_kernel_cache
